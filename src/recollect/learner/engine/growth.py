"""Add outputs for new classes to the last layer of a network."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from recollect.core.calling import call
from recollect.core.dense import Dense
from recollect.core.heads import pass_mark
from recollect.core.modules import Features
from recollect.core.packing import Packing
from recollect.core.targets import Target
from recollect.errors import InputError

LIST_CLASSES = "use a network with an output for every class, and list all classes (classes=[...])"
NOT_THE_LOGITS = (
    "the last linear layer of the network does not compute its logits, so no outputs can be added "
    "(what the network returns is not the output of a linear layer itself; then the linear layer "
    "that was registered last must be the head): return the output of the head, register it last, "
    f"or {LIST_CLASSES}"
)


def outputs_of(module: nn.Module, example: Tensor, packing: Packing | None = None) -> int:
    """Return the number of logits of a module for an example `[...]`, or a packed row."""
    training = {name: each.training for name, each in module.named_modules()}
    module.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            logits = call(module, torch.stack([example, example]), packing, dtype_of(module))
    except (torch.OutOfMemoryError, MemoryError, InputError):
        raise
    except Exception as error:  # the user's network may raise anything
        hint = " (integers are for embeddings: convert other examples to float32)"
        raise InputError(
            f"the network does not accept {packing or f'examples of shape {list(example.shape)}'}: "
            f"{first_line(error)}{'' if packing or example.is_floating_point() else hint}"
        ) from error
    finally:
        for name, each in module.named_modules():
            each.training = training[name]
    if logits.dim() != 2 or len(logits) != 2:
        raise InputError(
            f"the network must return logits of shape [n, outputs] for n examples, not "
            f"{list(logits.shape)} for 2"
        )
    return logits.shape[1]


def dtype_of(module: nn.Module) -> torch.dtype:
    """Return the floating-point type of a module's parameters."""
    floats = (p.dtype for p in module.parameters() if p.is_floating_point())
    return next(floats, torch.float32)


@torch.no_grad()
def with_outputs(module: nn.Module, outputs: int, seed: int = 0) -> nn.Module:
    """Return a copy of a module whose last linear layer is extended to `outputs` outputs.

    The new outputs are initialised as torch does; the existing ones do not change.

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
            "there are more classes than the network has outputs, and outputs can only be added to "
            "a network whose last layer is linear: use such a network, or one with an output for "
            "every class, and list all classes (classes=[...])"
        )
    old = features.head
    if old.weight.shape[1 if isinstance(old, Dense) else 0] > outputs:  # type: ignore[index]
        raise InputError(NOT_THE_LOGITS)
    if type(old) not in (nn.Linear, Dense) or old._forward_pre_hooks:
        raise InputError(
            "the last linear layer is a subclass or has hooks, such as weight norm, which would be "
            f"lost with more outputs: {LIST_CLASSES}"
        )
    name = next(name for name, each in copied.named_modules() if each is old)
    shared = [n for n, p in copied.named_parameters(remove_duplicate=False) if p is old.weight]
    if len(shared) > 1:
        raise InputError(
            f"the last linear layer shares its weights ({', '.join(shared)}), so no outputs can be "
            f"added: {LIST_CLASSES}"
        )
    new: nn.Linear | Dense
    with torch.random.fork_rng(devices=[]):  # do not change the global generator
        torch.manual_seed(seed)
        if isinstance(old, Dense):
            new = Dense(features.size, outputs)
        else:
            new = nn.Linear(features.size, outputs, bias=old.bias is not None)
    pass_mark(old, new)
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
    """Mark the outputs `[n, C]` of classes or labels that the examples y do not have."""
    plain = y[:, 1:] if target.weighted else y
    if target.name == "labels":
        return plain == 0
    other = torch.ones_like(logits, dtype=torch.bool)
    return other.scatter_(1, plain.view(-1, 1).long(), False)


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def overlaid(tensor: Tensor, larger: Tensor) -> Tensor:
    """Copy the larger tensor, with `tensor` written to the start of every axis."""
    result = larger.clone()
    result[tuple(slice(size) for size in tensor.shape)] = tensor
    return result


def padded(tensor: Tensor, shape: torch.Size | tuple[int, ...]) -> Tensor:
    """Pad a tensor with zeros at the end of every axis, up to a shape."""
    if tensor.shape == shape:
        return tensor
    return overlaid(tensor, tensor.new_zeros(shape))
