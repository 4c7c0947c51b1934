"""ER-ACE: Experience Replay with Asymmetric Cross-Entropy (Caccia et al., 2022)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.losses import cross_entropy_among
from recollect.methods.base import Classifier, Replay, Setup, Spec, Step, hyper


@dataclass(frozen=True)
class ERACE(Classifier):
    """Incoming examples compete among the classes of their batch, replayed ones among all seen.

    A batch of new classes then does not lower the logits of older ones, which is how forgetting
    begins. A class is seen from the batch on that brings its first example. With `unseen` 1,
    classes that have not come yet compete in both parts, as in the authors' code.

    >>> ERACE()
    ERACE(unseen=0)
    """

    unseen: int = hyper(0, "1: classes that have not come yet compete too")
    balanced: int = hyper(0, "1: a class-balanced memory instead of a reservoir", added=True)

    name: ClassVar[str] = "er-ace"
    title: ClassVar[str] = "ER-ACE"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def setup(self, spec: Spec) -> Setup:
        """The classes seen so far."""
        seen = torch.zeros(spec.runs, spec.classes, dtype=torch.bool)
        return Setup(state=lambda model: {"seen": seen})

    def loss(self, step: Step) -> Tensor:
        """The cross-entropy of the batch among its classes, plus that of the replay, `[K]`."""
        past = step.draw()
        now, then = step.net(step.x, past.x)
        present = torch.zeros_like(step.state["seen"]).scatter(1, step.y, True)
        seen = step.state["seen"].logical_or_(present)
        others = ~seen if self.unseen else torch.zeros_like(seen)
        return cross_entropy_among(present | others, now, step.y) + cross_entropy_among(
            seen | others, then, past.y
        )
