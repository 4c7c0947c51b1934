"""What a fleet asks of an optimiser."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol, Self

from torch import Tensor

from recollect.core.weights import Gradient, Weights

__all__ = ["Optimiser"]


class Optimiser(Protocol):
    """Moves the weights of K runs in place, and remembers what it needs from step to step."""

    @property
    def state(self) -> Mapping[str, Tensor]:
        """Averages and the like, by weight and name."""
        ...

    @property
    def kind(self) -> Hashable:
        """What a compiled step depends on besides `tensors`."""
        ...

    def descend(self, weights: Weights, direction: Gradient | Weights, rate: Tensor) -> None:
        """A step against a gradient by a learning rate `[K]`; what has no part in it stays."""
        ...

    def tensors(self) -> list[Tensor]:
        """Settings and state as plain tensors, for a step that is compiled."""
        ...

    def over(self, tensors: Sequence[Tensor]) -> Self:
        """The same with other tensors, in the order of `tensors`."""
        ...

    def row(self, run: int) -> Self:
        """The optimiser of one run, with its state in the same memory."""
        ...
