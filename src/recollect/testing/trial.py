"""A method on trial: three small runs of it, three small tasks, and three kinds of network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple, final

import torch
from torch import Tensor, nn

from recollect.core.random import Purpose, below, bits
from recollect.errors import InputError
from recollect.methods import Method
from recollect.nets import MLP
from recollect.streams.joint import Joint
from recollect.streams.stream import Batch, Stream
from recollect.streams.tasks import TaskStream, examples_of
from recollect.testing.same import state
from recollect.testing.watch import Note, by_step, watched
from recollect.train import Fleet
from recollect.train.source import Source

__all__ = ["BATCH", "NETS", "PER_TASK", "SEEDS", "TASKS", "Course", "Moment", "Trial", "tasks_of"]

SHAPE, PER_TASK, TASKS, COUNT = (1, 4, 4), 2, 3, 12
BATCH, CAPACITY, REPLAY = 5, 12, 6  # the last batch of an epoch has two examples
SEEDS, RATES = (3, 2**40, 0), (1.0, 0.3, 1.7)
FACTORS, SMALL = (0.5, 0.9), (0.01, 0.03)
Shown = Callable[[Batch], Batch]

# Each is run in another way: as one call with a run axis, under vmap, one run after the other.
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
    """Tasks of two new classes each, of bytes, with a mark on every class."""
    y = torch.arange(tasks * count) % PER_TASK + torch.arange(tasks).repeat_interleave(count) * 2
    words = bits(torch.tensor([0]), Purpose.PIXELS, torch.arange(len(y) * 16))
    x = below(words, 200).to(torch.uint8).view(-1, *SHAPE)
    x.flatten(1)[torch.arange(len(y)), y % 16] += 55
    groups = tuple((2 * task, 2 * task + 1) for task in range(tasks))
    ids = tuple(examples_of(y, group) for group in groups)
    head = classes or PER_TASK * tasks
    return TaskStream("trial", "class", head, x, y, x, y, ids, ids, groups)


class Moment(NamedTuple):
    """A fleet after a stretch of examples: where to continue, and its last loss."""

    task: int
    stretch: int
    loss: Tensor


class Course(NamedTuple):
    """The way of a fleet: all there was to see after each step and at the end, and what was used.

    A way that ended in an error is not whole.
    """

    fleet: Fleet
    moments: list[Moment]
    states: list[dict[str, Tensor]]
    notes: list[Note]
    error: Exception | None


@final
@dataclass(frozen=True, eq=False)
class Trial:
    """Runs of a method that differ in seed, rate and hyper-parameters."""

    methods: tuple[Method, ...]
    lr: float

    @staticmethod
    def of(method: Method, beside: Sequence[Method], lr: float) -> Trial:
        """The method and two others of its kind, whose hyper-parameters are somewhat different."""
        given = list(beside)[:2]
        made = [_varied(method, number) for number in range(len(given), 2)]
        return Trial((method, *given, *made), lr)

    @property
    def kind(self) -> type[Method]:
        """The class of the method."""
        return type(self.methods[0])

    @property
    def batch(self) -> int:
        """How many examples arrive in a step."""
        return self.kind.batch or BATCH

    @property
    def stream(self) -> TaskStream:
        """The tasks: half as many examples for a method that takes them one by one."""
        return tasks_of(TASKS, COUNT if self.batch > 1 else COUNT // 2)

    @cached_property
    def refusals(self) -> dict[str, str]:
        """What the method says of each kind of network that it cannot work with."""
        found = {}
        for net in NETS:
            try:
                self.fleet(net, runs=(0,))
            except InputError as error:
                found[net] = str(error)
            except Exception:  # the checks will tell
                continue
        return found

    @cached_property
    def usual(self) -> str:
        """The first kind of network that the method works with."""
        return next((net for net in NETS if net not in self.refusals), "broadcast")

    def fleet(
        self,
        net: str | None = None,
        runs: Sequence[int] = (0, 1, 2),
        *,
        stream: TaskStream | None = None,
        seeds: Sequence[int] | None = None,
        methods: Sequence[Method] | None = None,
        told: bool = True,
        **ways: Any,
    ) -> Fleet:
        """Some of the runs, before their first step, in double precision."""
        stream = stream or self.stream
        several = told and not self.kind.needs_all_data
        methods = methods or [self.methods[run] for run in runs]
        return Fleet(
            methods, partial(NETS[net or self.usual], stream.classes),
            seeds=seeds or [SEEDS[run] for run in runs],
            lr=[self.lr * RATES[run] for run in runs],
            classes=stream.classes, shape=SHAPE, memory=CAPACITY, replay=REPLAY,
            stored=torch.uint8, dtype=torch.float64, compiled=False,
            tasks=stream.tasks if several else 1, per_task=PER_TASK, **ways,
        )  # fmt: skip

    def walk(
        self,
        fleet: Fleet,
        *,
        at: tuple[int, int] = (0, 0),
        steps: int | None = 1,
        epochs: int = 1,
        told: bool = True,
        shown: Shown = lambda batch: batch,
        stream: TaskStream | None = None,
    ) -> Iterator[Moment]:
        """Take a fleet through all tasks, some steps at a time, as training does.

        `shown` changes what a method sees of a task's examples at its boundaries.
        """
        whole = stream or self.stream
        arriving: Stream = Joint(whole) if self.kind.needs_all_data else whole
        for task in range(at[0], arriving.tasks):
            pick = partial(_pick, arriving, fleet.seeds, task, shown)
            count, done = sum(arriving.parts(task)), at[1] if task == at[0] else 0
            if told and not done:
                fleet.start_task(pick, count, self.batch)
            source = Source(arriving, task, fleet)
            total = sum(source.parts)
            length = steps * self.batch if steps else total
            passes = epochs + (self.methods[0].extra_epochs() if told else 0)
            places = [(epoch, a) for epoch in range(passes) for a in range(0, total, length)]
            arrived: tuple[Tensor, Tensor] | None = None
            for stretch, (epoch, a) in enumerate(places[done:], done + 1):
                if (epoch, a) == (epochs, 0):
                    fleet.revise_task(pick, count, self.batch)
                x, y = arrived = arrived or source(epoch, 0, total)
                loss = fleet.learn(x[:, a : a + length], y[:, a : a + length], self.batch)
                loss = loss.clone()  # it may be a part of something that is not to be kept
                del x, y
                if a + length >= total:
                    arrived = None
                yield Moment(task, stretch, loss)
            if told:
                fleet.end_task(pick, count, self.batch)

    def walked(self, fleet: Fleet, **how: Any) -> Fleet:
        """The fleet after all tasks."""
        for _ in self.walk(fleet, **how):
            pass
        return fleet

    @property
    def end(self) -> Fleet:
        """The runs after all tasks, which nobody may change."""
        if self.course.error is not None:
            raise self.course.error
        return self.course.fleet

    @cached_property
    def course(self) -> Course:
        """The way of the runs through all tasks, watched step by step."""
        return self.watch(self.usual, (0, 1, 2))

    def watch(self, net: str, runs: Sequence[int]) -> Course:
        """The way of some runs through all tasks, watched step by step."""
        methods, notes = watched([self.methods[run] for run in runs])
        course = Course(self.fleet(net, runs, methods=methods), [], [], notes, None)
        done = 0
        try:
            for moment in self.walk(course.fleet):
                now = state(course.fleet)
                if moment.loss.shape == (len(runs),):
                    now["loss"] = moment.loss
                for draws in by_step(notes[done:], len(runs)):
                    for number, draw in enumerate(draws, 1):
                        now |= {f"{name} of draw {number}": t for name, t in draw.items()}
                done = len(notes)
                course.moments.append(moment)
                course.states.append(now)
            course.states.append(state(course.fleet))
        except Exception as error:
            return course._replace(error=error)
        return course


def _pick(stream: Stream, seeds: Tensor, task: int, shown: Shown, index: Tensor) -> Batch:
    return shown(stream.pick(seeds, task, index))


def _varied(method: Method, number: int) -> Method:
    """The method with smaller hyper-parameters, where it takes them."""
    for name in type(method).varying():
        value = getattr(method, name)
        try:
            other = value * FACTORS[number] if value else SMALL[number]
            method = replace(method, **{name: other})
        except (ValueError, TypeError, AssertionError):  # it says which values make sense
            continue
    return method
