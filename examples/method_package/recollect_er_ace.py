"""ER-ACE: experience replay with an asymmetric cross-entropy (Caccia et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect import Method, Replay, Step
from recollect.core.losses import cross_entropy_among

__all__ = ["ERACE"]


@dataclass(frozen=True)
class ERACE(Method):
    """Lets new examples compete among the classes of their batch alone, replayed ones among all.

    A batch of new classes then does not push the old ones down: that is what forgetting begins
    with. From *New Insights on Reducing Abrupt Representation Change in Online Continual
    Learning*, ICLR 2022.
    """

    name: ClassVar[str] = "er-ace"
    title: ClassVar[str] = "ER-ACE"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def loss(self, step: Step) -> Tensor:
        """The cross-entropy of the batch among its own classes, plus that of the replay."""
        past = step.draw()
        now, then = step.net(step.x, past.x)
        runs, _, classes = now.shape
        nothing = torch.zeros(runs, classes, dtype=torch.bool, device=now.device)
        present = nothing.scatter(1, step.y, True)  # [K, C]: which classes each run's batch has
        return cross_entropy_among(present, now, step.y) + step.criterion(then, past.y)
