"""DER++: Dark Experience Replay with labels (Buzzega et al., 2020)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recollect.core.losses import squared_distance
from recollect.methods.base import Method, Replay, Step, hyper


@dataclass(frozen=True)
class DERpp(Method):
    """DER with a second draw from memory, replayed with its labels.

    >>> from recollect import MLP, Learner
    >>> learner = Learner(MLP(2, 1), DERpp(alpha=0.1, beta=0.5), memory=10)
    >>> loss = learner.observe([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> learner.seen, learner.method
    (2, DERpp(alpha=0.1, beta=0.5))
    """

    alpha: float | Tensor = hyper(0.5, "weight of the squared distance to the stored logits")
    beta: float | Tensor = hyper(0.5, "weight of the loss on replayed labels")
    balanced: int = hyper(0, "1: a class-balanced memory instead of a reservoir", added=True)

    name: ClassVar[str] = "derpp"
    title: ClassVar[str] = "DER++"
    replay: ClassVar[Replay] = Replay(("x", "y", "logits"), draws=2)

    def loss(self, step: Step) -> Tensor:
        first, second = step.draw(), step.draw()
        now, then, also = step.net(step.x, first.x, second.x)
        step.remember(logits=now)
        return (
            step.criterion(now, step.y)
            + self.alpha * squared_distance(then, first.logits)
            + self.beta * step.criterion(also, second.y)
        )
