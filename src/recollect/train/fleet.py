"""A fleet: K runs of one method that learn as one computation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from recollect.core.descent import Descent
from recollect.core.images import Images
from recollect.core.inputs import as_input
from recollect.core.network import Network, Strategy
from recollect.core.optimiser import Optimiser
from recollect.core.transforms import Transforms
from recollect.errors import InputError
from recollect.memory import ClassRing, Clock, Memory
from recollect.methods import About, Boundary, Method
from recollect.train.ahead import Ahead
from recollect.train.checks import check_alike, check_batch, check_network, check_runs
from recollect.train.compiled import compiler_exists
from recollect.train.execution import (
    Stacks,
    compiling_pays,
    fast_arithmetic,
)
from recollect.train.guard import Guard
from recollect.train.planner import Planner
from recollect.train.state import State, stacked
from recollect.train.stepper import Stepper
from recollect.train.training_logits import training_logits

__all__ = ["Fleet"]

ROWS = 1000
BATCH = 10

Examples = Callable[[Tensor], tuple[Tensor, Tensor]]
Looked = TypeVar("Looked", Tensor, tuple[Tensor, Tensor])


class Fleet:
    """K runs of one method, with their own seeds, rates and hyper-parameters.

    `learn` takes a step on every batch of a stretch of the stream; `logits` is what the networks
    say. A single run is a fleet of one, and such a one may have an optimiser of torch's, with its
    options, and may be `guarded`: then a step that fails or diverges can be undone.

    >>> from recollect import DERpp, MLP
    >>> fleet = Fleet([DERpp(0.2, 1.0), DERpp(0.5, 1.0)], lambda: MLP(4, 3), seeds=[0, 1],
    ...               lr=[0.1, 0.1], classes=3, shape=(4,), memory=20, replay=5)
    >>> loss = fleet.learn(torch.rand(2, 30, 4), torch.zeros(2, 30, dtype=torch.long), batch=10)
    >>> fleet.seen, fleet.steps, loss.shape
    (30, 3, torch.Size([2]))
    """

    def __init__(
        self,
        methods: Sequence[Method],
        network: Callable[[], nn.Module] | nn.Module,
        *,
        seeds: Sequence[int],
        lr: Sequence[float],
        classes: int,
        shape: tuple[int, ...],
        memory: int = 0,
        replay: int = 0,
        stored: torch.dtype = torch.float32,
        images: Images | Transforms | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        half: bool = False,
        recorded: bool | None = None,
        compiled: bool | None = None,
        steps: int = 0,
        tasks: int = 1,
        per_task: int | None = None,
        strategy: Strategy | None = None,
        optimiser: tuple[str, Mapping[str, Any]] | None = None,
        guarded: bool = False,
    ) -> None:
        check_runs(methods, seeds, lr, memory, replay)
        if len(seeds) > 1 and (optimiser or guarded):
            raise InputError("an optimiser of torch's and a guard are for a fleet of one run")
        self.kind = type(methods[0])
        if compiled and not compiler_exists():
            raise InputError("compiling was asked for, but no C++ compiler was found: install one")
        self.device = torch.device(device)
        self.seeds = torch.tensor(list(seeds), dtype=torch.int64, device=self.device)
        self.images = images
        on_gpu = self.device.type == "cuda"
        self.network = Network(
            methods[0].network(network, tasks),
            seeds,
            dtype=dtype,
            device=self.device,
            strategy=strategy,
            half=half,
            channels_last=on_gpu,
        )
        self.weights = self.network.weights
        known = {"x": (shape, stored), "y": ((), torch.int64), "logits": ((classes,), dtype)}
        fields = {name: known[name] for name in self.kind.remembers}
        self.memory = Memory(len(seeds), memory if fields else 0, fields, self.device)
        self.clock = Clock(tasks=tasks)
        self.classes = classes
        check_network(self.network, self.logits, len(seeds), shape, stored, classes)
        rule = methods[0].rule(memory) if fields else None
        met = None
        if isinstance(rule, ClassRing):
            met = torch.zeros(len(seeds), classes, dtype=torch.int64, device=self.device)
        replayed = tuple(fields) if met is None else (*fields, "counts")
        places = bool(fields) and (self.kind.places or self.kind.luck > 0)
        self.planner = Planner(
            self.seeds, self.memory, rule, methods[0].draws_per_step(), replay, images,
            self.network.noisy, self.kind.luck, places, met,
        )  # fmt: skip
        about = About(
            len(seeds), self.memory.capacity, classes, tasks, per_task or classes, shape,
            self.network.feature_size, self.network.head_axes, self.weights.named(),
            self.network.buffers,
        )  # fmt: skip
        self.own = {name: t.to(self.device) for name, t in methods[0].own(about).items()}
        self.optimiser = (
            Optimiser(optimiser[0], self.weights, lr[0], optimiser[1]) if optimiser else None
        )
        self._rates = rates = torch.tensor(list(lr), dtype=dtype, device=self.device)
        self._method = stacked(methods, dtype, self.device)
        state = State(self.weights, self.network.buffers, self._method, rates, self.own)
        one_by_one = self.network.strategy == "loop"
        if compiled is None:
            alike = steps // tasks if self.kind.needs_task else steps
            compiled = compiler_exists() and compiling_pays(
                self.device, one_by_one, alike, self.runs
            )
        if recorded is None:
            recorded = on_gpu and not (optimiser or guarded)
        # Layers that draw random numbers are seeded from outside the step, every time.
        noisy = self.network.noisy
        changed = [t for n, t in self.tensors().items() if not n.startswith("memory.")]
        self.guard = Guard(changed, self.memory, self.optimiser) if guarded else None
        self._ahead = Ahead(self.planner)
        self._stepper = Stepper(
            self.network, self.memory, state.rows() if one_by_one else [state], replayed,
            ("slots",) * places + ("luck",) * (self.kind.luck > 0),
            (compiled and not noisy, recorded and not noisy), images, self.optimiser, self.guard,
        )  # fmt: skip

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.seeds)

    @property
    def seen(self) -> int:
        """How many examples every run has seen."""
        return self.clock.seen

    @property
    def steps(self) -> int:
        """How many steps every run has taken."""
        return self.clock.steps

    @property
    def bytes_per_run(self) -> int:
        """What one run holds besides its network."""
        own = sum(t[0].numel() * t.element_size() for t in self.own.values())
        network = {**self.weights.named(), **self.network.buffers}
        return self.memory.bytes_per_run + own + self._method.grown(network, self._task)

    def learn(self, x: Tensor, y: Tensor, batch: int) -> Tensor:
        """Take a step on every `batch` examples of x `[K, n, ...]`, y `[K, n]`; the last loss.

        What is replayed and where examples are stored is known beforehand, so it is worked out
        for many steps at once; a step is then only the network and the memory's copies.
        """
        if self.kind.needs_task and self.clock.task >= self.clock.tasks:
            raise InputError(
                f"{self.kind.title} was made for {self.clock.tasks} tasks and has met them all: "
                f"say how many there will be"
            )
        check_batch(x, y, batch, self.runs, self.classes)
        count = y.shape[1]
        loss = torch.zeros(self.runs, device=self.device)
        start = 0
        with fast_arithmetic(self.device):
            while start < count:
                size = min(batch, count - start)
                sizes = self.planner.sizes(self.clock)
                steps = self.planner.steps(self.clock, (count - start) // size)
                stop = start + size * steps
                labels = _by_step(y[:, start:stop], steps)
                stacks = {
                    "x": _by_step(x[:, start:stop], steps),
                    "y": labels,
                    **self._ahead.plan(self.clock, steps, size, sizes, labels),
                }
                usual = size == batch and self.planner.full(self.clock)
                loss = self._stepper.take(stacks, sizes, usual)
                self.planner.note(labels)
                self.clock = self.clock.after(steps, size)
                start = stop
        return loss

    def start_task(self, examples: Examples, count: int, batch: int = BATCH) -> None:
        """Say that a task begins, to methods that are to know.

        `examples` gives those of the task at places `[K, n]` of `count`, which will come in batches
        of this size.
        """
        if self.kind.needs_boundaries:
            self._method.start_task(self._boundary(examples, count, batch))

    def revise_task(self, examples: Examples, count: int, batch: int = BATCH) -> None:
        """Say that a task is over but for the epochs that the method has on top."""
        self._method.revise_task(self._boundary(examples, count, batch))

    def end_task(
        self, examples: Examples | None = None, count: int = 0, batch: int = BATCH
    ) -> None:
        """Say that a task is over, to methods that are to know and may look back at it."""
        if self.kind.needs_boundaries and examples is not None:
            self._method.end_task(self._boundary(examples, count, batch))
        self.clock = self.clock.next_task(count)
        self._begin_task()

    @property
    def execution(self) -> str:
        """How its steps are carried out, in words."""
        return self._stepper.execution

    def tensors(self) -> Stacks:
        """Every tensor that learning changes; with the clock, its whole state."""
        parts = {
            "weights": self.weights.named(),
            "buffers": self.network.buffers,
            "memory": self.memory.tensors,
            "own": self.own,
            "met": {} if self.planner.met is None else {"labels": self.planner.met},
            "optimiser": {} if self.optimiser is None else self.optimiser.tensors(),
        }
        return {f"{part}.{n}": t for part, tensors in parts.items() for n, t in tensors.items()}

    def restore(self, tensors: Mapping[str, Tensor], clock: Clock) -> None:
        """Go to a state that another fleet of the same kind was in."""
        if self.optimiser is not None:
            start = "optimiser."
            kept = {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}
            self.optimiser.restore(kept)
        mine = self.tensors()
        check_alike(mine, tensors)
        for name, tensor in mine.items():
            tensor.copy_(tensors[name])
        self.clock = clock
        self._begin_task()

    def logits(self, x: Tensor) -> Tensor:
        """The logits `[K, n, C]` of examples `[K, n, ...]`, or `[1, n, ...]` for all runs alike."""
        return self._in_test(partial(self.network, self.weights), x)

    def features(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the last dense layer reads, `[K, n, D]`, and the logits, of the same examples."""
        return self._in_test(partial(self.network.features, self.weights), x)

    @torch.no_grad()
    def scores(self, x: Tensor, task: int = 0) -> Tensor:
        """What the method chooses the largest of, `[K, n, C]`: the logits, for most.

        The examples belong to a task, which only a method that needs it is told.
        """
        if self.kind.scores_features:
            return self._method.scores(*self.features(x), self.own)
        if not self.kind.needs_task:
            return self.logits(x)
        weights = self._method.for_task(self.weights, self.own, task)
        self.network.begin(task)
        try:
            return self._in_test(partial(self.network, weights), x)
        finally:
            self.network.begin(self._task)

    def kept(self) -> int:
        """How many remembered examples arrive again in the task that begins."""
        return self._method.kept(self.own) if self.kind.mixes_memory else 0

    @torch.no_grad()
    def _in_test(self, look: Callable[[Tensor], Looked], x: Tensor) -> Looked:
        inputs = self._plain(x).expand(self.runs, *x.shape[1:])
        seeded = self.network.seeded(0) if self.network.noisy else nullcontext()
        with fast_arithmetic(self.device), seeded, self.network.testing():
            return look(inputs)

    def _plain(self, x: Tensor) -> Tensor:
        dtype = self.network.dtype
        return as_input(x, dtype) if self.images is None else self.images.plain(x, dtype)

    @property
    def _task(self) -> int:
        """The task that is going on, or the last one when all are over."""
        return min(self.clock.task, self.clock.tasks - 1)

    def _begin_task(self) -> None:
        """Leave behind what belongs to another task, if the method computes otherwise in each."""
        if self.kind.needs_task and self.clock.task < self.clock.tasks:
            self.network.begin(self.clock.task)
            self._stepper.arrange(self.clock.task)

    def _boundary(self, examples: Examples, count: int, batch: int) -> Boundary:
        def parted(look: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
            return torch.cat([look(part) for part in x.split(ROWS, 1)], 1)  # type: ignore[no-untyped-call]

        def scratch() -> Descent:
            copies = {name: tensor.clone() for name, tensor in self.network.buffers.items()}
            return Descent(self.network, self.weights.snapshot(), copies, self._rates)

        return Boundary(
            clock=self.clock,
            seeds=self.seeds,
            memory=self.memory,
            own=self.own,
            weights=self.weights,
            buffers=self.network.buffers,
            batch=batch,
            replay=self.planner.replay,
            count=count,
            examples=examples,
            shown=self._plain,
            logits=partial(parted, self.logits),
            training_logits=partial(
                training_logits, self.network, self.images, self.seeds, self.clock.steps, batch
            ),
            features=partial(parted, lambda x: self.features(x)[0]),
            scratch=scratch,
        )


def _by_step(stretch: Tensor, steps: int) -> Tensor:
    """The batches of a stretch `[K, steps * B, ...]`, each contiguous: `[steps, K, B, ...]`."""
    runs, _, *shape = stretch.shape
    return stretch.reshape(runs, steps, -1, *shape).transpose(0, 1).contiguous()
