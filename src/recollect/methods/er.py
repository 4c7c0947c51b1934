"""ER: Experience Replay (Ratcliff, 1990; Robins, 1995) with a reservoir memory."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.methods.base import Method, Replay, Step, hyper


@dataclass(frozen=True)
class ER(Method):
    """Adds stored examples to every batch and trains on the mean loss over all of them.

    >>> ER()
    ER()
    """

    balanced: int = hyper(0, "1: a class-balanced memory instead of a reservoir", added=True)

    name: ClassVar[str] = "er"
    title: ClassVar[str] = "ER"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def loss(self, step: Step) -> Tensor:
        past = step.draw()
        (logits,) = step.net(torch.cat([step.x, past.x], 1))
        return step.criterion(logits, torch.cat([step.y, past.y], 1))
