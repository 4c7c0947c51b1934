"""SGD and JOINT: the lower and the upper bound of the paper's tables."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recollect.methods.base import Method, Needs, Step


@dataclass(frozen=True)
class SGD(Method):
    """Trains on the stream without any measure against forgetting: the paper's lower bound.

    >>> SGD()
    SGD()
    """

    name: ClassVar[str] = "sgd"
    title: ClassVar[str] = "SGD"

    def loss(self, step: Step) -> Tensor:
        (logits,) = step.net(step.x)
        return step.criterion(logits, step.y)


@dataclass(frozen=True)
class Joint(SGD):
    """Trains on all tasks at once, shuffled: the paper's upper bound, not a continual learner.

    >>> from recollect import run
    >>> run("seq-digits", "joint", seeds=1, lr=0.1)[0].accuracy["class"] > 70
    True
    """

    name: ClassVar[str] = "joint"
    title: ClassVar[str] = "JOINT"
    needs: ClassVar[Needs] = Needs(all_data=True)
