"""Small test runs of a method: three runs, three tasks, and three kinds of network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from types import MappingProxyType
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from recollect.core.random import Purpose, below, bits
from recollect.errors import InputError
from recollect.memory import Stored
from recollect.methods import Method, Spec, Step, hyperparameters, varying
from recollect.methods.step import Outcome
from recollect.nets import MLP
from recollect.streams.joint import Joint
from recollect.streams.stream import Batch, Stream
from recollect.streams.tasks import TaskStream, examples_of
from recollect.testing.compare import state_of
from recollect.train import Fleet
from recollect.train.source import Source

SHAPE, PER_TASK, TASKS, COUNT = (1, 4, 4), 2, 3, 12
BATCH, CAPACITY, REPLAY = 5, 12, 6  # the last batch of an epoch has two examples
SPEC = Spec(3, CAPACITY, PER_TASK * TASKS, TASKS, PER_TASK, SHAPE)
SEEDS, RATES = (3, 2**40, 0), (1.0, 0.3, 1.7)
FACTORS, SMALL = (0.5, 0.9), (0.01, 0.03)
# Functions with which Python reads the values of tensors.
READING = {"__bool__", "__float__", "__int__", "__index__", "item", "tolist", "numpy", "equal"}

# One network for every strategy: with a run axis, under vmap, one run after the other.
NETS: dict[str, Callable[[int], nn.Module]] = {
    "broadcast": lambda classes: MLP(16, classes, hidden=(12, 8)),
    "vmap": lambda classes: nn.Sequential(
        nn.Flatten(), nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, classes)
    ),
    "loop": lambda classes: nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, classes)
    ),
}


@cache
def tasks_of(tasks: int, count: int = COUNT, classes: int = 0) -> TaskStream:
    """A stream of tasks with two new classes each; every class has a bright pixel of its own."""
    y = torch.arange(tasks * count) % PER_TASK + torch.arange(tasks).repeat_interleave(count) * 2
    words = bits(torch.tensor([0]), Purpose.PIXELS, torch.arange(len(y) * 16))
    x = below(words, 200).to(torch.uint8).view(-1, *SHAPE)
    x.flatten(1)[torch.arange(len(y)), y % 16] += 55
    groups = tuple((2 * task, 2 * task + 1) for task in range(tasks))
    ids = tuple(examples_of(y, group) for group in groups)
    head = classes or PER_TASK * tasks
    return TaskStream("trial", "class", head, x, y, x, y, ids, ids, groups)


class Snapshot(NamedTuple):
    """A fleet within training: where to continue, its last loss and its state."""

    task: int = 0
    stretch: int = 0
    rehearsed: int = 0
    more_epochs: int | None = None
    loss: Tensor = torch.zeros(0)
    state: Mapping[str, Tensor] = MappingProxyType({})


START = Snapshot()


class Trajectory(NamedTuple):
    """The training of a fleet over all tasks, or until an error: snapshots and usage of steps."""

    fleet: Fleet
    snapshots: list[Snapshot]
    usages: list[Usage]
    error: Exception | None


@final
@dataclass(frozen=True, eq=False)
class Trial:
    """Runs of a method that differ in seed, learning rate and hyper-parameters."""

    methods: tuple[Method, ...]
    lr: float
    batch: int
    stream: TaskStream
    epochs: int = 1
    boundaries: bool = True

    @staticmethod
    def of(method: Method, beside: Sequence[Method], lr: float, batch: int) -> Trial:
        """Create a trial of the method and two others with different hyper-parameters."""
        given = list(beside)[:2]
        made = [_varied(method, number) for number in range(len(given), 2)]
        count = COUNT if batch > 1 else COUNT // 2
        return Trial((method, *given, *made), lr, batch, tasks_of(TASKS, count))

    @property
    def kind(self) -> type[Method]:
        """The class of the method."""
        return type(self.methods[0])

    @cached_property
    def refusals(self) -> dict[str, str]:
        """The error message for each kind of network that the method refuses."""
        found = {}
        for net in NETS:
            try:
                self.fleet(net, runs=(0,))
            except InputError as error:
                found[net] = str(error)
            except Exception:  # reported by the checks
                continue
        return found

    @cached_property
    def usual(self) -> str:
        """The first kind of network that the method accepts."""
        return next((net for net in NETS if net not in self.refusals), "broadcast")

    def fleet(
        self, net: str | None = None, runs: Sequence[int] = (0, 1, 2), **options: Any
    ) -> Fleet:
        """Create a fleet of some of the runs, in double precision."""
        classes, several = self.stream.classes, self.boundaries and not self.kind.needs.all_data
        options = {"seeds": [SEEDS[run] for run in runs], **options}
        return Fleet(
            options.pop("methods", [self.methods[run] for run in runs]),
            partial(NETS[net or self.usual], classes), lr=[self.lr * RATES[run] for run in runs],
            classes=classes, shape=SHAPE, memory=CAPACITY, replay=REPLAY, stored=torch.uint8,
            dtype=torch.float64, compiled=False, tasks=self.stream.tasks if several else 1,
            per_task=PER_TASK, **options,
        )  # fmt: skip

    def walk(
        self,
        fleet: Fleet,
        start: Snapshot = START,
        steps: int | None = 1,
        change: Callable[[Batch], Batch] = lambda batch: batch,
    ) -> Iterator[Snapshot]:
        """Train a fleet on all tasks, `steps` at a time, like the training loop.

        `change` is applied to the examples that a method reads at task start and end.
        """
        stream: Stream = Joint(self.stream) if self.kind.needs.all_data else self.stream
        _, done, rehearsed, more, *_ = start
        for task in range(start.task, stream.tasks):
            count = sum(stream.parts(task))
            given = partial(_pick, stream, fleet.seeds, task, change), count, self.batch
            if self.boundaries and not done:
                rehearsed = fleet.start_task(*given)
            learn = partial(self._learn, fleet, Source(stream, task, fleet, rehearsed), steps)
            if more is None:
                for stretch, loss in learn(range(self.epochs), done):
                    yield Snapshot(task, stretch, rehearsed, None, loss)
                more, done = fleet.end_task(*given) if self.boundaries else 0, 0
            for stretch, loss in learn(range(self.epochs, self.epochs + more), done):
                yield Snapshot(task, stretch, rehearsed, more, loss)
            if self.boundaries:
                fleet.next_task(count)
            done, more = 0, None

    def _learn(
        self, fleet: Fleet, source: Source, steps: int | None, epochs: range, done: int
    ) -> Iterator[tuple[int, Tensor]]:
        total = sum(source.parts)
        length = steps * self.batch if steps else total
        stretches = [(epoch, first) for epoch in epochs for first in range(0, total, length)]
        for number, (epoch, first) in enumerate(stretches[done:], done + 1):
            arrived = partial(source, epoch, first, min(first + length, total))
            # Copied, because the loss may be a view of a larger tensor.
            yield number, fleet.learn(*arrived(), self.batch).clone()

    def walked(self, fleet: Fleet, **how: Any) -> Fleet:
        """Train a fleet on all tasks and return it."""
        for _ in self.walk(fleet, **how):
            pass
        return fleet

    @property
    def end(self) -> Fleet:
        """The runs after all tasks; must not be changed."""
        if self.trajectory.error is not None:
            raise self.trajectory.error
        return self.trajectory.fleet

    @cached_property
    def trajectory(self) -> Trajectory:
        """The training of all runs on all tasks, step by step."""
        return self.follow(self.usual, (0, 1, 2))

    def follow(self, net: str, runs: Sequence[int]) -> Trajectory:
        """Train some runs on all tasks, step by step, and record snapshots and usage."""
        methods, usages = with_usage([self.methods[run] for run in runs])
        found = Trajectory(self.fleet(net, runs, methods=methods), [], usages, None)
        done = 0
        try:
            for snapshot in self.walk(found.fleet):
                now = state_of(found.fleet)
                if snapshot.loss.shape == (len(runs),):
                    now["loss"] = snapshot.loss
                # Drop the usage of the fleet's own check of the first step, which uses copies.
                del usages[done : -len(runs) if found.fleet.network.strategy == "loop" else -1]
                each, done = [usage.draws for usage in usages[done:]], len(usages)
                for number, draws in enumerate(zip(*each, strict=True), 1):
                    for name in draws[0]:  # of all runs, if each run has a step of its own
                        now[f"{name} of draw {number}"] = torch.cat([d[name] for d in draws])
                found.snapshots.append(snapshot._replace(state=now))
        except Exception as error:
            return found._replace(error=error)
        return found


def _pick(
    stream: Stream, seeds: Tensor, task: int, change: Callable[[Batch], Batch], index: Tensor
) -> Batch:
    return change(stream.pick(seeds, task, index))


def _varied(method: Method, number: int) -> Method:
    """The method with smaller hyper-parameters, if it accepts them."""
    for name in varying(type(method)):
        value = getattr(method, name)
        try:
            other = value * FACTORS[number] if value else SMALL[number]
            method = replace(method, **{name: other})
        except (ValueError, TypeError, AssertionError):  # the method validates its values
            continue
    return method


@final
@dataclass
class Usage:
    """The usage of a step: its draws, the numbers of those used, and what it writes to memory.

    `on_arrival` says whether the memory policy stores incoming examples; `values` are the functions
    that read values of tensors. A step that failed has no outcome.
    """

    draws: list[Stored]
    batch: int
    on_arrival: bool
    used: set[int] = field(default_factory=set)
    values: list[str] = field(default_factory=list)
    outcome: Outcome | None = None


def with_usage(methods: Sequence[Method]) -> tuple[list[Method], list[Usage]]:
    """Wrap methods to record the usage of every step (of every run, in a loop) in a list."""
    kind, usages = type(methods[0]), list[Usage]()

    def update(self: Method, step: Step) -> Tensor:
        copies = [Stored({n: t.clone() for n, t in draw.items()}) for draw in step.replays]
        usage = Usage(copies, step.y.shape[1], on_arrival=step.slots.shape[1] > 0)
        usages.append(usage)
        step.replays = [_RecordedDraw(d, n, usage.used) for n, d in enumerate(step.replays)]
        with _RecordedValues(usage.values):
            loss = kind.update(self, step)
        usage.outcome = deepcopy(step.outcome)
        return loss

    other = type(kind.__name__, (kind,), {"update": update})
    names = hyperparameters(kind)
    return [other(**{name: getattr(m, name) for name in names}) for m in methods], usages


class _RecordedDraw(Stored):
    def __init__(self, draw: Stored, number: int, used: set[int]) -> None:
        super().__init__(draw)
        self._record = partial(used.add, number)

    def __getitem__(self, name: str) -> Tensor:
        self._record()
        return super().__getitem__(name)


class _RecordedValues(TorchFunctionMode):
    def __init__(self, read: list[str]) -> None:
        super().__init__()
        self._read = read

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.__name__ in READING:
            self._read.append(func.__name__)
        return func(*args, **(kwargs or {}))
