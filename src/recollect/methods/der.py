"""DER: Dark Experience Replay (Buzzega et al., 2020)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recollect.core.losses import squared_distance
from recollect.methods.base import Method, Replay, Step, hyper


@dataclass(frozen=True)
class DER(Method):
    """Stores the network's logits with past examples and regularises the outputs towards them.

    >>> DER(alpha=0.3)
    DER(alpha=0.3)
    """

    alpha: float | Tensor = hyper(0.5, "weight of the squared distance to the stored logits")
    balanced: int = hyper(0, "1: a class-balanced memory instead of a reservoir", added=True)

    name: ClassVar[str] = "der"
    title: ClassVar[str] = "DER"
    replay: ClassVar[Replay] = Replay(("x", "logits"))

    def loss(self, step: Step) -> Tensor:
        past = step.draw()
        now, then = step.net(step.x, past.x)
        step.remember(logits=now)
        return step.criterion(now, step.y) + self.alpha * squared_distance(then, past.logits)
