"""DER++: Dark Experience Replay with labels (Buzzega et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recollect.core.losses import cross_entropy, squared_distance
from recollect.methods.method import Method
from recollect.methods.step import Step

__all__ = ["DERpp"]


@dataclass(frozen=True)
class DERpp(Method):
    """DER with a second draw from memory, replayed with its labels.

    `recollect reproduce seq-mnist --methods derpp` makes its rows of the paper's table.

    >>> from recollect import MLP, Learner
    >>> learner = Learner(MLP(2, 1), DERpp(alpha=0.1, beta=0.5), memory=10)
    >>> loss = learner.observe([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> learner.seen, learner.method
    (2, DERpp(alpha=0.1, beta=0.5))
    """

    alpha: float | Tensor = 0.5
    beta: float | Tensor = 0.5

    name: ClassVar[str] = "derpp"
    title: ClassVar[str] = "DER++"
    remembers: ClassVar[tuple[str, ...]] = ("x", "y", "logits")
    draws: ClassVar[int] = 2

    def loss(self, step: Step) -> Tensor:
        """DER's loss plus beta times the cross-entropy of the second draw."""
        first, second = step.draw(), step.draw()
        now, then, also = step.net(step.x, first.x, second.x)
        step.remember(logits=now)
        return (
            cross_entropy(now, step.y)
            + self.alpha * squared_distance(then, first.logits)
            + self.beta * cross_entropy(also, second.y)
        )
