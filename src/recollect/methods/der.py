"""DER: Dark Experience Replay (Buzzega et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recollect.core.losses import cross_entropy, squared_distance
from recollect.methods.method import Method
from recollect.methods.step import Step

__all__ = ["DER"]


@dataclass(frozen=True)
class DER(Method):
    """Keeps the network's logits along with past examples, and stays close to them.

    `recollect reproduce seq-mnist --methods der` makes its rows of the paper's table.

    >>> from recollect import MLP, Learner
    >>> learner = Learner(MLP(2, 1), DER(alpha=0.3), memory=10)
    >>> loss = learner.observe([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> learner.seen, learner.method
    (2, DER(alpha=0.3))
    """

    alpha: float | Tensor = 0.5

    name: ClassVar[str] = "der"
    title: ClassVar[str] = "DER"
    remembers: ClassVar[tuple[str, ...]] = ("x", "logits")
    draws: ClassVar[int] = 1

    def loss(self, step: Step) -> Tensor:
        """Cross-entropy on the stream plus alpha times the distance to remembered logits."""
        past = step.draw()
        now, then = step.net(step.x, past.x)
        step.remember(logits=now)
        return cross_entropy(now, step.y) + self.alpha * squared_distance(then, past.logits)
