"""PNN: Progressive Neural Networks (Rusu et al., 2016)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from recollect.methods.base import Needs, Setup, Spec
from recollect.methods.sgd import SGD
from recollect.nets.progressive import progressive


@dataclass(frozen=True)
class PNN(SGD):
    """Adds a network column for every task, with lateral connections from earlier columns.

    Nothing is forgotten, since earlier columns are frozen; but the number of parameters grows with
    the square of the number of tasks, and predictions need the task of an example.

    >>> PNN.needs.task_id, PNN.needs.grows
    (True, True)
    """

    name: ClassVar[str] = "pnn"
    title: ClassVar[str] = "PNN"
    needs: ClassVar[Needs] = Needs(boundaries=True, task_id=True, grows=True)

    def setup(self, spec: Spec) -> Setup:
        return Setup(network=lambda build: partial(progressive, build, spec.tasks))
