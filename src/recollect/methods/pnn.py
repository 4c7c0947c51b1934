"""PNN: Progressive Neural Networks (Rusu et al., 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recollect.methods.method import Method
from recollect.methods.setup import Needs, Setup, Spec
from recollect.methods.step import Step
from recollect.nets.progressive import progressive

__all__ = ["PNN"]


@dataclass(frozen=True)
class PNN(Method):
    """Gives every task a network of its own, which reads what the earlier ones see.

    Nothing is forgotten, since the networks of earlier tasks never change; but what is held grows
    with the square of the number of tasks, and a test must say which task it belongs to.

    `recollect reproduce seq-mnist --methods pnn` makes its row of the paper's table.

    >>> PNN.needs.task_id, PNN.needs.grows
    (True, True)
    """

    name: ClassVar[str] = "pnn"
    title: ClassVar[str] = "PNN"
    needs: ClassVar[Needs] = Needs(boundaries=True, task_id=True, grows=True)

    def setup(self, spec: Spec) -> Setup:
        """A column for every task."""
        return Setup(network=lambda build: progressive(build, spec.tasks))

    def loss(self, step: Step) -> Tensor:
        """The cross-entropy of the newest column, one value per run, `[K]`."""
        (logits,) = step.net(step.x)
        return step.criterion(logits, step.y)
