"""Find the head of a network: the linear layer that computes its logits."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from recollect.core.calling import call
from recollect.core.dense import Dense
from recollect.core.packing import Packing

# The name of an attribute of the head; with an underscore, it is not part of fingerprints.
MARK = "_recollect_head"

M = TypeVar("M", bound=nn.Module)


def linear_layers(module: nn.Module) -> list[nn.Linear | Dense]:
    """Return the linear layers of a module, in the order in which they were registered."""
    return [layer for layer in module.modules() if isinstance(layer, nn.Linear | Dense)]


def head_of(module: nn.Module) -> nn.Linear | Dense | None:
    """Return the marked head of a module, or else its last registered linear layer, if any."""
    layers = linear_layers(module)
    marked = [layer for layer in layers if getattr(layer, MARK, False)]
    found = marked or layers
    return found[-1] if found else None


@torch.no_grad()
def mark_head(module: M, x: Tensor, packing: Packing | None = None) -> M:
    """Mark the head of a module if it is not the linear layer that was registered last.

    The head is the layer whose output the module returns for inputs x `[n, ...]`, or packed rows.
    If there is none, for instance because the module scales its logits, or if the module does not
    accept the inputs, no layer is marked. Returns the module.

    >>> class HeadFirst(nn.Module):
    ...     def __init__(self) -> None:
    ...         super().__init__()
    ...         self.head, self.body = nn.Linear(8, 3), nn.Linear(4, 8)
    ...     def forward(self, x: Tensor) -> Tensor:
    ...         return self.head(self.body(x).relu())
    >>> module = mark_head(HeadFirst(), torch.ones(2, 4))
    >>> head_of(module)
    Linear(in_features=8, out_features=3, bias=True)
    """
    layers = linear_layers(module)
    for layer in layers:  # the mark of an earlier network that this one is a part of
        vars(layer).pop(MARK, None)
    if len(layers) < 2:
        return module
    found = _called_last(module, layers, x, packing)
    if found is not None and found is not layers[-1]:
        setattr(found, MARK, True)
    return module


def marked_name(module: nn.Module) -> str | None:
    """Return the name of the marked layer of a module; None without one."""
    return next((name for name, each in module.named_modules() if getattr(each, MARK, False)), None)


def mark_named(module: M, name: str | None) -> M:
    """Mark the layer of this name as `mark_head` does; None removes all marks."""
    for path, layer in module.named_modules():
        vars(layer).pop(MARK, None)
        if path == name:
            setattr(layer, MARK, True)
    return module


def pass_mark(old: nn.Module, new: nn.Module) -> None:
    """Mark the last linear layer of `new`, which replaces `old`, if `old` is marked."""
    if getattr(old, MARK, False) and (layers := linear_layers(new)):
        setattr(layers[-1], MARK, True)


def _called_last(
    module: nn.Module, layers: list[nn.Linear | Dense], x: Tensor, packing: Packing | None
) -> nn.Linear | Dense | None:
    """Return the last layer called whose output is the module's, in evaluation mode."""
    calls: list[tuple[nn.Linear | Dense, Tensor]] = []

    def note(layer: Any, inputs: object, output: Any) -> None:
        calls.append((layer, output))

    training = {each: each.training for each in module.modules()}
    buffers = [
        (each._buffers, name, tensor, tensor.clone())
        for each in module.modules()
        for name, tensor in each._buffers.items()
        if tensor is not None
    ]
    like = next(iter(layers)).weight
    hooks = [layer.register_forward_hook(note) for layer in layers]
    module.eval()
    try:
        with torch.random.fork_rng(devices=[]):
            x = x if x.device == like.device else x.to(like.device)
            x = x.to(like.dtype) if x.is_floating_point() else x
            logits = call(module, x.clone(), packing, like.dtype)
        return next((layer for layer, output in reversed(calls) if _same(output, logits)), None)
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except Exception:  # the network may raise anything; whoever calls it next reports it
        return None
    finally:
        for hook in hooks:
            hook.remove()
        for owner, name, tensor, before in buffers:
            owner[name] = tensor.copy_(before)
        for each, mode in training.items():
            each.training = mode


def _same(output: Any, logits: Tensor) -> bool:
    """Whether a layer's output is the tensor of logits, or a view of all of it."""
    if output is logits:
        return True
    alike = isinstance(output, Tensor) and output.numel() == logits.numel()
    return alike and output.data_ptr() == logits.data_ptr()
