"""PNN: Progressive Neural Networks (Rusu et al., 2016)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from recollect.core.losses import cross_entropy
from recollect.methods.method import Build, Method
from recollect.methods.step import Step
from recollect.nets.progressive import progressive

__all__ = ["PNN"]


@dataclass(frozen=True)
class PNN(Method):
    """Gives every task a network of its own, which reads what the earlier ones see.

    Nothing is forgotten, since the networks of earlier tasks never change; but what is held grows
    with the square of the number of tasks, and a test must say which task it belongs to.

    `recollect reproduce seq-mnist --methods pnn` makes its row of the paper's table.

    >>> PNN.needs_task, PNN.grows
    (True, True)
    """

    name: ClassVar[str] = "pnn"
    title: ClassVar[str] = "PNN"
    needs_boundaries: ClassVar[bool] = True
    grows: ClassVar[bool] = True
    needs_task: ClassVar[bool] = True

    def loss(self, step: Step) -> Tensor:
        """The cross-entropy of the newest column, one value per run, `[K]`."""
        (logits,) = step.net(step.x)
        return cross_entropy(logits, step.y)

    def network(self, build: Build, tasks: int) -> Build:
        """A column for every task."""
        return progressive(build, tasks)

    def grown(self, network: Mapping[str, Tensor], task: int) -> int:
        """The columns of the second task and of all that have begun since."""
        later = tuple(f"columns.{number}." for number in range(1, task + 1))
        added = [tensor[0] for name, tensor in network.items() if name.startswith(later)]
        return sum(tensor.numel() * tensor.element_size() for tensor in added)
