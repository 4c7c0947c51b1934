"""Call a network with examples of one tensor or several, and read its logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from recollect.core.packing import Packing
from recollect.errors import InputError

__all__ = ["call", "logits_of", "with_tensors"]


def call(
    module: Callable[..., Any],
    x: Tensor,
    packing: Packing | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """The logits of a module for inputs `[n, ...]`, unpacked if they are rows of a packing.

    Reals become the type of the module's weights.

    >>> packing = Packing.of({"left": torch.zeros(1, 2), "right": torch.zeros(1, 2)})
    >>> rows = packing.pack({"left": torch.ones(1, 2), "right": torch.zeros(1, 2)})
    >>> call(lambda left, right: {"logits": left - right}, rows, packing)
    tensor([[1., 1.]])
    """
    if packing is None:
        return logits_of(module(x))
    inputs = packing.inputs(x, dtype)
    return logits_of(module(**inputs) if packing.named else module(*inputs.values()))


def logits_of(output: Any) -> Tensor:
    """The tensor that a network gave: its output, or what that has as `logits`."""
    if isinstance(output, Tensor):
        return output
    found = output.get("logits") if isinstance(output, Mapping) else None
    found = getattr(output, "logits", None) if found is None else found
    if not isinstance(found, Tensor):
        raise InputError(
            f"the network must give a tensor of logits, or an object with one as `logits`, not a "
            f"{type(output).__name__}"
        )
    return found


def with_tensors(
    module: nn.Module, tensors: Mapping[str, Tensor], *, tied: bool = True
) -> Callable[..., Any]:
    """The module as a function that computes with these parameters and buffers.

    `tied` says whether some of its tensors have several names.
    """
    known = dict(tensors)

    def function(*inputs: Tensor, **named: Tensor) -> Any:
        return functional_call(module, known, inputs, named, tie_weights=tied)

    return function
