"""Task boundaries of a fleet: notify the method when a task starts or ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from recollect.core.images import Images
from recollect.core.model import Model
from recollect.core.network import Network
from recollect.core.transforms import Transforms
from recollect.core.weights import State
from recollect.memory import Clock, Memory
from recollect.methods import Method, Task
from recollect.methods.task import Requests
from recollect.train.execution import fast_arithmetic
from recollect.train.planner import Planner
from recollect.train.reader import Reader
from recollect.train.stepper import Stepper
from recollect.train.training_logits import training_logits

__all__ = ["FleetTasks"]

BATCH = 10

Examples = Callable[[Tensor], tuple[Tensor, Tensor]]


class FleetTasks:
    """The methods of a `Fleet` that are called at task boundaries."""

    kind: type[Method]
    device: torch.device
    seeds: Tensor
    clock: Clock
    network: Network
    model: Model
    state: State
    memory: Memory
    planner: Planner
    images: Images | Transforms | None
    _method: Method
    _reader: Reader
    _stepper: Stepper

    def start_task(self, examples: Examples, count: int, batch: int = BATCH) -> int:
        """Notify a method that needs task boundaries that a task starts.

        Args:
            examples: Returns x and y of the task at indices `[K, n]` below `count`.
            count: Number of examples of the task.
            batch: Number of examples per step.

        Returns:
            The number of stored examples to add to the task's training data.
        """
        return self._requests(examples, count, batch, ending=False).rehearsed

    def end_task(self, examples: Examples, count: int, batch: int = BATCH) -> int:
        """Notify a method that a task ends; return how many more epochs it requests."""
        return self._requests(examples, count, batch, ending=True).epochs

    def next_task(self, count: int = 0) -> None:
        """Advance the clock to the next task, after one of `count` examples."""
        self.clock = self.clock.next_task(count)
        self._begin_task()

    def _begin_task(self) -> None:
        if self.kind.needs.task_id and self.clock.task < self.clock.tasks:
            self.network.begin(self.clock.task)
            self._stepper.arrange(self.clock.task)

    def _requests(self, examples: Examples, count: int, batch: int, *, ending: bool) -> Requests:
        requests, steps = Requests(ending), self.clock.steps
        if not self.kind.needs.boundaries:
            return requests
        task = Task(
            self.clock, self.seeds, self.model, self.state, self.memory, count, batch,
            self.planner.replay, examples, self._reader.inputs,
            partial(training_logits, self.network, self.images, self.seeds, steps, batch), requests,
        )  # fmt: skip
        with fast_arithmetic(self.device):
            (self._method.end_task if ending else self._method.start_task)(task)
        self._stepper.first_steps.forget()
        return requests
