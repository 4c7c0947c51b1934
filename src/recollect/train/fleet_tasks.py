"""Task boundaries of a fleet: notify the method when a task starts or ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from recollect.core.images import Images, as_input
from recollect.core.model import Model
from recollect.core.network import Network
from recollect.core.random import Purpose, bits, coming_bits
from recollect.core.transforms import Transforms
from recollect.core.weights import State, Weights
from recollect.memory import Clock, Memory
from recollect.methods import Method, Task
from recollect.methods.task import Requests
from recollect.train.execution import fast_arithmetic
from recollect.train.planner import Planner
from recollect.train.reader import Reader
from recollect.train.stepper import Stepper

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
        with fast_arithmetic(self.device, search=True):
            (self._method.end_task if ending else self._method.start_task)(task)
        self._stepper.first_steps.forget()
        return requests


@torch.no_grad()
def training_logits(
    network: Network,
    images: Images | Transforms | None,
    seeds: Tensor,
    step: int,
    batch: int,
    x: Tensor,
) -> Tensor:
    """Compute the logits `[K, n, C]` of examples `[K, n, ...]` in training mode, batch by batch.

    The augmentation is a function of the seed, the step and the example's index. Running
    statistics of normalisation layers are updated.
    """
    views = x
    if images is not None:
        views = images.view_of(coming_bits(seeds, Purpose.RECORD, step, 1, x.shape[1])[0])

    def through(runs: slice) -> Tensor:
        weights = Weights({name: t[runs] for name, t in network.weights.named().items()})
        buffers = {name: t[runs] for name, t in network.buffers.items()}
        logits = []
        for part, view in zip(x[runs].split(batch, 1), views[runs].split(batch, 1), strict=True):  # type: ignore[no-untyped-call]
            if images is None:
                inputs = as_input(part, network.dtype)
            else:
                inputs = images.augment(part, view, network.dtype)
            logits.append(network(weights, inputs, (inputs.shape[1],), buffers))
        return torch.cat(logits, 1)

    if not network.noisy:
        return through(slice(None))
    found = []
    for run, seed in enumerate(bits(seeds, Purpose.RECORD, step).tolist()):
        with network.seeded(seed):
            found.append(through(slice(run, run + 1)))
    return torch.cat(found)
