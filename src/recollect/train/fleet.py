"""A fleet: K runs of one method that learn as one computation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from recollect.core.descent import Descent
from recollect.core.images import Images
from recollect.core.inputs import as_input
from recollect.core.network import Network, Strategy
from recollect.core.optimiser import Optimiser
from recollect.core.transforms import Transforms
from recollect.errors import DivergedError, InputError
from recollect.memory import ClassRing, Clock, Memory, Remembered
from recollect.methods import About, Boundary, Method, Step
from recollect.train.ahead import Ahead
from recollect.train.checks import check_batch, check_runs
from recollect.train.compiled import Compiled, compiler_exists
from recollect.train.execution import (
    Lanes,
    Plain,
    Replayed,
    Stacks,
    compiling_pays,
    fast_arithmetic,
)
from recollect.train.guard import Guard
from recollect.train.planner import Planner
from recollect.train.state import State, stacked

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
        self._check_network(shape, stored)
        rule = methods[0].rule(memory) if fields else None
        met = None
        if isinstance(rule, ClassRing):
            met = torch.zeros(len(seeds), classes, dtype=torch.int64, device=self.device)
        self._replayed = tuple(fields) if met is None else (*fields, "counts")
        self._places = self.kind.places or self.kind.luck > 0
        self._draws = methods[0].draws_per_step()
        self.planner = Planner(
            self.seeds, self.memory, rule, self._draws, replay, images, self.network.noisy,
            self.kind.luck, self._places, met,
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
        self._states = state.rows() if one_by_one else [state]
        self._lanes = Lanes(self.device, len(self._states))
        if compiled is None:
            alike = steps // tasks if self.kind.needs_task else steps
            compiled = compiler_exists() and compiling_pays(
                self.device, one_by_one, alike, self.runs
            )
        if recorded is None:
            recorded = on_gpu and not (optimiser or guarded)
        # Layers that draw random numbers are seeded from outside the step, every time.
        self._ways = [way and not self.network.noisy for way in (compiled, recorded)]
        self._compiled: Compiled | None
        self._take: Plain | Replayed
        self._arrange()
        self._usual: tuple[int, ...] = ()
        self._ahead = Ahead(self.planner)
        changed = [t for n, t in self.tensors().items() if not n.startswith("memory.")]
        self.guard = Guard(changed, self.memory, self.optimiser) if guarded else None

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
        replay = min(self.planner.replay, self.memory.capacity)
        self._usual = (batch, *[replay] * self._draws)
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
                loss = self._take(stacks, sizes)
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
        how = []
        if isinstance(self._take, Replayed) and self._take.possible:
            how.append("CUDA graph" if self.device.type == "cuda" else "recorded step")
        if len(self._lanes) > 1:
            how.append(f"{len(self._lanes)} streams")
        if self._compiled is not None:
            how.append("compiled")
        if self.network.half:
            how.append("bf16")
        return ", ".join([self.network.strategy, *(how or ["eager"])])

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
        if mine.keys() != tensors.keys():
            raise InputError("the saved state belongs to another network or method")
        for name, tensor in mine.items():
            if (tensor.shape, tensor.dtype) != (tensors[name].shape, tensors[name].dtype):
                raise InputError(
                    f"the saved {name} is {list(tensors[name].shape)} of {tensors[name].dtype}, "
                    f"and here it is {list(tensor.shape)} of {tensor.dtype}: it belongs to another "
                    f"network"
                )
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
            self._arrange()

    def _arrange(self) -> None:
        """Prepare the ways in which steps are taken; nothing is compiled or recorded yet."""
        compiled, recorded = self._ways
        self._compiled = Compiled(self._learn_over, self._kind_of_step()) if compiled else None
        self._take = Replayed(self._step, self.device) if recorded else Plain(self._step)

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
            features=partial(parted, lambda x: self.features(x)[0]),
            scratch=scratch,
        )

    def _check_network(self, shape: tuple[int, ...], stored: torch.dtype) -> None:
        """Refuse a network that does not take the examples, or whose head is of another size."""
        blank = torch.zeros(self.runs, 2, *shape, dtype=stored, device=self.device)
        try:
            self.network.settle(as_input(blank, self.network.dtype))
            found = list(self.logits(blank).shape[1:])
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            raise InputError(
                f"the network cannot take examples of shape {list(shape)}: "
                f"{str(error).splitlines()[0]}"
            ) from None
        if found != [2, self.classes]:
            raise InputError(
                f"the network must give {self.classes} logits for an example, not {found[1:]}"
            )

    def _step(
        self,
        x: Tensor,
        y: Tensor,
        read: Tensor,
        write: Tensor,
        sizes: tuple[int, ...],
        views: Tensor | None = None,
        noise: Tensor | None = None,
        slots: Tensor | None = None,
        luck: Tensor | None = None,
        counts: Tensor | None = None,
    ) -> Tensor:
        """One step of all runs, in place; the loss `[K]`.

        Memory is read and written for all runs at once; between the two, runs that are computed
        one by one go side by side.
        """
        past = self.memory.read(read)
        if counts is not None:
            past["counts"] = counts
        shown, again = x, past
        if self.images is not None and views is not None:
            dtype, size = self.network.dtype, x.shape[1]
            shown = self.images.shown(x, views[:, :size], dtype)
            if "x" in past:
                replayed = self.images.again(past.x, views[:, size:], dtype)
                again = Remembered({**past, "x": replayed})
        lanes = len(self._states)
        choice = [tensor for tensor in (slots, luck) if tensor is not None]
        tensors = (shown, y, *again.values(), *choice)
        pieces = zip(*(tensor.chunk(lanes) for tensor in tensors), strict=True)
        usual = (x.shape[1], *sizes) == self._usual
        learn = [
            partial(self._compiled, *state.tensors(), *piece)
            if self._compiled is not None and usual
            else partial(self._learn, state, sizes, *piece)
            for state, piece in zip(self._states, pieces, strict=True)
        ]
        if noise is not None:
            learn = [
                partial(self._seeded, *each) for each in zip(noise.tolist(), learn, strict=True)
            ]
        outcomes = self._lanes(learn)
        loss, *kept = outcomes[0] if lanes == 1 else map(torch.cat, zip(*outcomes, strict=True))
        if choice:
            write = self.memory.rows(kept.pop())
        if self.guard is not None:
            if not self.guard.finite(loss):
                raise DivergedError("the loss or the weights are no numbers any more")
            self.guard.note_rows(write)
        if write.shape[1]:
            self.memory.write(write, {"x": x, "y": y, **dict(zip(self._noted, kept, strict=True))})
        return loss

    @property
    def _noted(self) -> list[str]:
        """What the memory keeps besides examples and labels."""
        return [name for name in self.kind.remembers if name not in ("x", "y")]

    def _seeded(self, seed: int, learn: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        with self.network.seeded(seed):
            return learn()

    def _kind_of_step(self) -> Hashable:
        """What a compiled step depends on besides the shapes of its tensors."""
        network = self.network
        layers = tuple(type(layer) for layer in network.module.modules())
        how = (network.strategy, network.dtype, network.half)
        shape = tuple(getattr(self._method, name) for name in self.kind.shaping)
        task = self.clock.task if self.kind.needs_task else 0
        return (self.kind, shape, layers, repr(network.module), how, task)

    def _learn_over(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The same with the state as plain tensors, to be compiled."""
        state = self._states[0]
        fixed = len(state.tensors())
        with self.network.written_out():
            return self._learn(state.over(tensors[:fixed]), self._usual[1:], *tensors[fixed:])

    def _learn(
        self, state: State, sizes: tuple[int, ...], x: Tensor, y: Tensor, *past: Tensor
    ) -> tuple[Tensor, ...]:
        """One step of the runs of a state, in place; the loss and what the method notes."""
        descent = Descent(self.network, state.weights, state.buffers, state.rate, self.optimiser)
        fields = len(self._replayed)
        replayed = Remembered(zip(self._replayed, past[:fields], strict=True))
        starts = [0, *accumulate(sizes)]
        draws = [replayed.narrow(*piece) for piece in zip(starts, sizes, strict=False)]
        step = Step(x, y, descent, draws, state.own, *past[fields:])
        loss = state.method.learn(step)
        kept = [step.kept[name] for name in self._noted if name in step.kept]
        return loss, *kept, *([step.slots] if self._places else [])


def _by_step(stretch: Tensor, steps: int) -> Tensor:
    """The batches of a stretch `[K, steps * B, ...]`, each contiguous: `[steps, K, B, ...]`."""
    runs, _, *shape = stretch.shape
    return stretch.reshape(runs, steps, -1, *shape).transpose(0, 1).contiguous()
