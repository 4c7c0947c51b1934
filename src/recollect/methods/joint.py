"""JOINT: all tasks at once, shuffled; the upper bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recollect.methods.method import Method
from recollect.methods.setup import Needs
from recollect.methods.sgd import SGD
from recollect.methods.step import Step

__all__ = ["Joint"]


@dataclass(frozen=True)
class Joint(Method):
    """Learns from all tasks at once, shuffled: the paper's upper bound, not a continual learner.

    `recollect reproduce seq-mnist --methods joint` makes its row of the paper's table.

    >>> from recollect import run
    >>> run("seq-digits", "joint", seeds=1, lr=0.1)[0].accuracy["class"] > 70
    True
    """

    name: ClassVar[str] = "joint"
    title: ClassVar[str] = "JOINT"
    needs: ClassVar[Needs] = Needs(all_data=True)

    def loss(self, step: Step) -> Tensor:
        """The same as SGD's: only what arrives differs."""
        return SGD().loss(step)
