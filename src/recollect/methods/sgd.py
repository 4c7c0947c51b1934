"""SGD: no countermeasure to forgetting; the lower bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recollect.methods.method import Method
from recollect.methods.step import Step

__all__ = ["SGD"]


@dataclass(frozen=True)
class SGD(Method):
    """Learns from the stream alone and forgets: the paper's lower bound.

    `recollect reproduce seq-mnist --methods sgd` makes its row of the paper's table.

    >>> from recollect import MLP, Learner
    >>> learner = Learner(MLP(2, 1), SGD(), memory=10)
    >>> loss = learner.observe([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> learner.seen, learner.method
    (2, SGD())
    """

    name: ClassVar[str] = "sgd"
    title: ClassVar[str] = "SGD"

    def loss(self, step: Step) -> Tensor:
        """Cross-entropy on what arrived."""
        (logits,) = step.net(step.x)
        return step.criterion(logits, step.y)
