"""Add outputs for new classes to the last layer of a network."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from recollect.core.calling import call
from recollect.core.dense import Dense
from recollect.core.modules import Features
from recollect.core.packing import Packing
from recollect.core.targets import Target
from recollect.errors import InputError

__all__ = [
    "NOT_THE_LOGITS", "absent", "dtype_of", "first_line", "outputs_of", "overlaid", "padded",
    "with_outputs",
]  # fmt: skip

LIST_CLASSES = "give it one for every class, and say which there will be (classes=[...])"
NOT_THE_LOGITS = (
    "the last linear layer of the network does not give its logits, so it cannot get more "
    f"of them: {LIST_CLASSES}"
)


def outputs_of(module: nn.Module, example: Tensor, packing: Packing | None = None) -> int:
    """How many logits a module gives for an example `[...]`, or a row of a packing."""
    training = {name: each.training for name, each in module.named_modules()}
    module.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            logits = call(module, torch.stack([example, example]), packing, dtype_of(module))
    except (torch.OutOfMemoryError, MemoryError, InputError):
        raise
    except Exception as error:  # it is the user's network: there is no list of what it may raise
        hint = " (whole numbers are for embeddings: convert others to float32)"
        raise InputError(
            f"the network cannot take {packing or f'examples of shape {list(example.shape)}'}: "
            f"{first_line(error)}{'' if packing or example.is_floating_point() else hint}"
        ) from error
    finally:
        for name, each in module.named_modules():
            each.training = training[name]
    if logits.dim() != 2 or len(logits) != 2:
        raise InputError("the network must give one row of logits for every example")
    return logits.shape[1]


def dtype_of(module: nn.Module) -> torch.dtype:
    """The type of a module's weights."""
    floats = (p.dtype for p in module.parameters() if p.is_floating_point())
    return next(floats, torch.float32)


@torch.no_grad()
def with_outputs(module: nn.Module, outputs: int, seed: int = 0) -> nn.Module:
    """A copy of a module whose last linear layer has so many outputs.

    The new outputs are initialised as torch does; the others compute what they did before.

    >>> small = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> grown = with_outputs(small, 5)
    >>> grown(torch.ones(1, 4)).shape
    torch.Size([1, 5])
    >>> torch.allclose(grown(torch.ones(1, 4))[:, :2], small(torch.ones(1, 4)))
    True
    """
    copied = copy.deepcopy(module)
    features = Features(copied)
    if not features.size:
        raise InputError(
            "there are more classes than the network has outputs, and only a network whose last "
            "layer is linear can get more: use such a network, or one with an output for every "
            "class, and say which there will be (classes=[...])"
        )
    old = features.head
    if old.weight.shape[1 if isinstance(old, Dense) else 0] > outputs:  # type: ignore[index]
        raise InputError(NOT_THE_LOGITS)
    if type(old) not in (nn.Linear, Dense) or old._forward_pre_hooks:
        raise InputError(
            "the last linear layer has ways of its own, such as a weight norm, which one with more "
            f"outputs would not have: {LIST_CLASSES}"
        )
    name = next(name for name, each in copied.named_modules() if each is old)
    shared = [n for n, p in copied.named_parameters(remove_duplicate=False) if p is old.weight]
    if len(shared) > 1:
        raise InputError(
            f"the last linear layer shares its weights ({', '.join(shared)}), so it cannot get "
            f"more outputs: {LIST_CLASSES}"
        )
    new: nn.Linear | Dense
    with torch.random.fork_rng(devices=[]):  # the user's generator is left alone
        torch.manual_seed(seed)
        if isinstance(old, Dense):
            new = Dense(features.size, outputs)
        else:
            new = nn.Linear(features.size, outputs, bias=old.bias is not None)
    new.to(old.weight.device, old.weight.dtype)  # type: ignore[arg-type]
    for part, parameter in new.named_parameters():
        before = getattr(old, part)
        parameter.copy_(overlaid(before, parameter))
        parameter.requires_grad_(before.requires_grad)
    if not name:
        return new
    path, _, last = name.rpartition(".")
    setattr(copied.get_submodule(path), last, new)
    return copied


def absent(logits: Tensor, y: Tensor, target: Target) -> Tensor:
    """Which of the outputs `[n, C]` belong to classes or labels that examples y do not have."""
    plain = y[:, 1:] if target.weighted else y
    if target.name == "labels":
        return plain == 0
    other = torch.ones_like(logits, dtype=torch.bool)
    return other.scatter_(1, plain.view(-1, 1).long(), False)


def first_line(error: Exception) -> str:
    """The first line of an error's message, or its type."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def overlaid(tensor: Tensor, larger: Tensor) -> Tensor:
    """A copy of the larger tensor that begins with this one along every axis."""
    result = larger.clone()
    result[tuple(slice(size) for size in tensor.shape)] = tensor
    return result


def padded(tensor: Tensor, shape: torch.Size | tuple[int, ...]) -> Tensor:
    """The tensor with zeros appended along every axis, up to a shape."""
    if tensor.shape == shape:
        return tensor
    return overlaid(tensor, tensor.new_zeros(shape))
