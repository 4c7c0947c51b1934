"""The interface of a fleet's optimiser."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol, Self

from torch import Tensor

from recollect.core.weights import Gradient, Weights

__all__ = ["Optimiser"]


class Optimiser(Protocol):
    """Updates the weights of K runs in place."""

    @property
    def state(self) -> Mapping[str, Tensor]:
        """The optimiser's tensors, such as running averages, named `weight.name`."""
        ...

    @property
    def kind(self) -> Hashable:
        """A key of everything that a compiled step depends on besides `tensors`."""
        ...

    def descend(self, weights: Weights, direction: Gradient | Weights, rate: Tensor) -> None:
        """Take one step against a gradient with learning rates `[K]`, in place.

        Weights without a gradient do not change.
        """
        ...

    def tensors(self) -> list[Tensor]:
        """Settings and state as a flat list of tensors, for a compiled step."""
        ...

    def over(self, tensors: Sequence[Tensor]) -> Self:
        """A copy with other tensors, in the order of `tensors`."""
        ...

    def row(self, run: int) -> Self:
        """The optimiser of one run, with a view of its state."""
        ...
