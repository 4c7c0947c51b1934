"""ER-ACE: Experience Replay with Asymmetric Cross-Entropy (Caccia et al., 2022)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.losses import cross_entropy_among
from recollect.methods.base import Classifier, Replay, Setup, Spec, Step, hyper


@dataclass(frozen=True)
class ERACE(Classifier):
    """ER with an asymmetric cross-entropy: incoming examples only compete within their batch.

    The softmax of incoming examples is over the classes in their batch, that of replayed examples
    over all classes seen so far. New classes therefore do not push down the logits of older ones,
    a main cause of forgetting. With `unseen` 1, classes that have not occurred yet are included in
    both, as in the authors' code.

    >>> ERACE()
    ERACE(unseen=0)
    """

    unseen: int = hyper(0, "1: include unseen classes in the softmax")
    balanced: int = hyper(0, "1: a class-balanced memory instead of a reservoir", added=True)

    name: ClassVar[str] = "er-ace"
    title: ClassVar[str] = "ER-ACE"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def setup(self, spec: Spec) -> Setup:
        """A mask of the classes seen so far."""
        seen = torch.zeros(spec.runs, spec.classes, dtype=torch.bool)
        return Setup(state=lambda model: {"seen": seen})

    def loss(self, step: Step) -> Tensor:
        """The cross-entropy of the batch over its classes, plus that of the replay, `[K]`."""
        past = step.draw()
        now, then = step.net(step.x, past.x)
        present = torch.zeros_like(step.state["seen"]).scatter(1, step.y, True)
        seen = step.state["seen"].logical_or_(present)
        others = ~seen if self.unseen else torch.zeros_like(seen)
        return cross_entropy_among(present | others, now, step.y) + cross_entropy_among(
            seen | others, then, past.y
        )
