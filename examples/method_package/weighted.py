# weighted.py
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recollect import Method, Replay, Step, hyper


@dataclass(frozen=True)
class WeightedER(Method):
    """Experience replay with a weight on the replayed loss."""

    weight: float | Tensor = hyper(1.0, "weight of the replayed loss")

    name: ClassVar[str] = "weighted-er"  # for commands
    title: ClassVar[str] = "Weighted ER"  # for tables
    replay: ClassVar[Replay] = Replay(("x", "y"), draws=1)  # what is stored; draws per step

    def loss(self, step: Step) -> Tensor:
        past = step.draw()
        now, then = step.net(step.x, past.x)
        return step.criterion(now, step.y) + self.weight * step.criterion(then, past.y)
