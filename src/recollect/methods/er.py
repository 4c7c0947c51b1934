"""ER: Experience Replay (Ratcliff, 1990; Robins, 1995) with a reservoir."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.methods.method import Method
from recollect.methods.setup import Replay
from recollect.methods.step import Step

__all__ = ["ER"]


@dataclass(frozen=True)
class ER(Method):
    """Adds stored examples to every batch.

    `recollect reproduce seq-mnist --methods er` makes its rows of the paper's table.

    >>> from recollect import MLP, Learner
    >>> learner = Learner(MLP(2, 1), ER(), memory=10)
    >>> loss = learner.observe([[0.0, 1.0], [1.0, 0.0]], ["a", "b"])
    >>> learner.seen, learner.method
    (2, ER())
    """

    name: ClassVar[str] = "er"
    title: ClassVar[str] = "ER"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def loss(self, step: Step) -> Tensor:
        """One mean loss over the batch and the replayed examples together."""
        past = step.draw()
        (logits,) = step.net(torch.cat([step.x, past.x], 1))
        return step.criterion(logits, torch.cat([step.y, past.y], 1))
