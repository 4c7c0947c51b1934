"""Export a trained network with exactly one output for every known class."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from recollect.core.calling import call, logits_of
from recollect.core.dense import Dense
from recollect.core.modules import Features, replace_head
from recollect.core.packing import Packing
from recollect.learner.engine.growth import dtype_of


@torch.no_grad()
def with_first_outputs(
    module: nn.Module,
    some_of: tuple[int, int],
    examples: Sequence[Tensor],
    packing: Packing | None = None,
) -> nn.Module:
    """Reduce a module to the first n of its m outputs.

    The last linear layer is cut. If that does not give the same outputs, for instance because a
    later layer mixes them, a forward hook selects the first ones instead. A module with another
    number of outputs, such as a projection that a method trains, is returned unchanged.

    Args:
        module: The trained module.
        some_of: The numbers of outputs (n, m).
        examples: Inputs `[...]`, or packed rows; the outputs are compared on the first one that the
            module accepts. If it accepts none, it gets a forward hook.
        packing: The packing of the rows, if they are packed.

    >>> module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 12))
    >>> smaller = with_first_outputs(module, (2, 12), [torch.ones(4)])
    >>> smaller[2], torch.equal(smaller(torch.ones(1, 4)), module(torch.ones(1, 4))[:, :2])
    (Linear(in_features=3, out_features=2, bias=True), True)
    """
    outputs, every = some_of
    training = {name: each.training for name, each in module.named_modules()}
    module.eval()
    with torch.random.fork_rng(devices=[]):
        tried = _first_accepted(module, examples, packing)
        if outputs == every or (tried and tried[1].shape[1] != every):
            found = module
        else:
            found = _cut(module, outputs)
            if tried is None or not _gives(found, tried[0], tried[1][:, :outputs], packing):
                found = copy.deepcopy(module)
                found.register_forward_hook(partial(_first, outputs))
    for name, each in found.named_modules():
        each.training = training[name]
    return found


def _first_accepted(
    module: nn.Module, examples: Sequence[Tensor], packing: Packing | None
) -> tuple[Tensor, Tensor] | None:
    """Return two copies of the first example that a module accepts, and its outputs for them."""
    for example in examples:
        batch = torch.stack([example, example])
        try:
            return batch, call(module, batch, packing, dtype_of(module))
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception:  # the user's network may raise anything
            continue
    return None


def _gives(module: nn.Module, batch: Tensor, wanted: Tensor, packing: Packing | None) -> bool:
    """Whether a module gives the wanted outputs `[2, n]` for a batch of two examples."""
    try:
        now = call(module, batch, packing, dtype_of(module))
        return now.shape == wanted.shape and torch.allclose(now, wanted, atol=1e-6)
    except Exception:  # the user's network may raise anything
        return False


def _cut(module: nn.Module, outputs: int) -> nn.Module:
    found = copy.deepcopy(module)
    features = Features(found)
    if not features.size or type(features.head) not in (nn.Linear, Dense):
        return found
    old: Any = features.head
    new: nn.Linear | Dense
    if isinstance(old, Dense):
        new = Dense(features.size, outputs)
        parts = {"weight": old.weight[:, :outputs], "bias": old.bias[:outputs]}
    else:
        new = nn.Linear(features.size, outputs, bias=old.bias is not None)
        parts = {name: part[:outputs] for name, part in old.named_parameters()}
    new.to(old.weight.device, old.weight.dtype)
    for name, parameter in new.named_parameters():
        parameter.copy_(parts[name])
        parameter.requires_grad_(getattr(old, name).requires_grad)
    return replace_head(found, new)


def _first(outputs: int, module: nn.Module, inputs: object, output: Any) -> Any:
    first = logits_of(output)[..., :outputs]
    if isinstance(output, Tensor):
        return first
    if isinstance(output, Mapping) and not hasattr(output, "logits"):
        return {**output, "logits": first}
    if isinstance(output, tuple):  # a named one
        return output._replace(logits=first)  # type: ignore[attr-defined]
    found = copy.copy(output)
    object.__setattr__(found, "logits", first)
    return found
