"""The state of a method: named tensors beside the weights and the memory."""

from __future__ import annotations

import torch
from torch import Tensor

from recollect.core.weights import Weights

__all__ = ["State"]


class State(dict[str, Tensor]):
    """Named tensors `[K, ...]` that a method keeps from step to step; they change in place.

    Tensors in the shape of the weights have names such as `fisher.weights.head.bias`, and
    `weights("fisher")` is all of them as one object.

    >>> state = State({"fisher.weights.head.bias": torch.zeros(1, 3), "count": torch.zeros(1)})
    >>> list(state.weights("fisher").named())
    ['head.bias']
    """

    def weights(self, name: str) -> Weights:
        """The tensors in the shape of the weights that are stored under a name."""
        return Weights(self.below(f"{name}.weights."))

    def below(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with a prefix, by what follows it."""
        return {n.removeprefix(prefix): t for n, t in self.items() if n.startswith(prefix)}

    def row(self, run: int) -> State:
        """The state of one run, with a run axis of length 1, in the same memory."""
        return State({name: tensor[run : run + 1] for name, tensor in self.items()})

    def to(self, device: torch.device) -> State:
        """The same on a device."""
        return State({name: tensor.to(device) for name, tensor in self.items()})
