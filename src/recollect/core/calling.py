"""Call a network on examples of one or several tensors and return its logits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from recollect.core.packing import Packing
from recollect.errors import InputError


def call(
    module: Callable[..., Any],
    x: Tensor,
    packing: Packing | None = None,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """Compute the logits of a module for inputs `[n, ...]`, unpacking them if there is a packing.

    Floating-point inputs of a packing are converted to `dtype`, the type of the weights.

    >>> packing = Packing.of({"left": torch.zeros(1, 2), "right": torch.zeros(1, 2)})
    >>> rows = packing.pack({"left": torch.ones(1, 2), "right": torch.zeros(1, 2)})
    >>> call(lambda left, right: {"logits": left - right}, rows, packing)
    tensor([[1., 1.]])
    """
    if packing is None:
        return logits_of(module(x))
    inputs = packing.inputs(x, dtype)
    return logits_of(module(**inputs) if packing.named else module(*inputs.values()))


def fullest(batch: Tensor) -> Tensor:
    """Return the example of a batch `[n, ...]` with the most values that are not 0.

    Networks may refuse one of zeros, such as a text of padding only.

    >>> fullest(torch.tensor([[0, 0], [0, 1], [2, 1]]))
    tensor([2, 1])
    """
    return batch[int(batch.reshape(len(batch), -1).count_nonzero(1).argmax())]


def logits_of(output: Any) -> Tensor:
    """Return a network's output if it is a tensor, else its `logits` key or attribute."""
    if isinstance(output, Tensor):
        return output
    found = output.get("logits") if isinstance(output, Mapping) else None
    found = getattr(output, "logits", None) if found is None else found
    if not isinstance(found, Tensor):
        raise InputError(
            f"the network must return a tensor of logits, or a mapping or object with a tensor "
            f"`logits`, not a {type(output).__name__}"
        )
    return found
