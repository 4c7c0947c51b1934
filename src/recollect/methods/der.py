"""DER: Dark Experience Replay (Buzzega et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recollect.core.losses import squared_distance
from recollect.methods.method import Method
from recollect.methods.options import hyper
from recollect.methods.setup import Replay
from recollect.methods.step import Step

__all__ = ["DER"]


@dataclass(frozen=True)
class DER(Method):
    """Stores the network's logits with past examples, and keeps the outputs close to them.

    `recollect reproduce seq-mnist --methods der` makes its rows of the paper's table.

    >>> from recollect import MLP, Learner
    >>> learner = Learner(MLP(2, 1), DER(alpha=0.3), memory=10)
    >>> loss = learner.observe([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> learner.seen, learner.method
    (2, DER(alpha=0.3))
    """

    alpha: float | Tensor = hyper(0.5, "weight of the squared distance to the stored logits")

    name: ClassVar[str] = "der"
    title: ClassVar[str] = "DER"
    replay: ClassVar[Replay] = Replay(("x", "logits"))

    def loss(self, step: Step) -> Tensor:
        """The loss on the stream plus alpha times the distance to the stored logits."""
        past = step.draw()
        now, then = step.net(step.x, past.x)
        step.remember(logits=now)
        return step.criterion(now, step.y) + self.alpha * squared_distance(then, past.logits)
