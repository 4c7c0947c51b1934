"""A fleet: K runs of one method that learn as one computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from recollect.core.inputs import as_input
from recollect.core.network import Network
from recollect.core.random import Purpose, bits
from recollect.core.weights import Weights
from recollect.errors import InputError
from recollect.memory import Memory, Reservoir
from recollect.methods import Method, Step
from recollect.train.compiled import Compiled, compiler_exists

__all__ = ["Fleet"]

Tensors = dict[str, Tensor]

PLANNED = 512


class Fleet:
    """K runs of one method, with their own seeds, rates and hyper-parameters.

    `learn` takes a step on every batch of a stretch of the stream; `logits` is what the networks
    say. A single run is a fleet of one.

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
        dtype: torch.dtype = torch.float32,
        compiled: bool = False,
    ) -> None:
        if not len(methods) == len(seeds) == len(lr) or not methods:
            raise InputError("a fleet needs one method, one seed and one rate for every run")
        self.kind = type(methods[0])
        if any(type(method) is not self.kind for method in methods):
            raise InputError("the runs of a fleet share one method: train others in a second fleet")
        if self.kind.uses_memory() and (memory < 1 or replay < 1):
            raise InputError(f"{self.kind.title} needs a memory and a replay size of at least 1")
        if compiled and not compiler_exists():
            raise InputError("compiling was asked for, but no C++ compiler was found: install one")
        self.seeds = torch.tensor(list(seeds), dtype=torch.int64)
        self.lr = torch.tensor(list(lr), dtype=dtype)
        self.method = _stacked(methods, dtype)
        self.network = Network(network, seeds, dtype=dtype)
        self.weights = self.network.weights
        self.rule = Reservoir(memory)
        self.replay = replay
        known = {"x": (shape, stored), "y": ((), torch.int64), "logits": ((classes,), dtype)}
        if unknown := set(self.kind.remembers) - set(known):
            raise InputError(f"a memory keeps x, y and logits, not {', '.join(sorted(unknown))}")
        fields = {name: known[name] for name in self.kind.remembers}
        self.memory = Memory(len(seeds), memory if fields else 0, fields)
        self.seen = 0
        self.steps = 0
        self.classes = classes
        self._check_network(shape, stored)
        # Tracing would run normalisation layers once more and change their statistics.
        # Layers that draw random numbers are seeded outside the step.
        compiled = compiled and not self.network.buffers and self.network.strategy != "loop"
        self._advance = self._compiled() if compiled else partial(self._step, self._state())

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.seeds)

    @property
    def bytes_per_run(self) -> int:
        """What one run holds besides its network."""
        return self.memory.bytes_per_run

    def learn(self, x: Tensor, y: Tensor, batch: int) -> Tensor:
        """Take a step on every `batch` examples of x `[K, n, ...]`, y `[K, n]`; the last loss.

        What is replayed and where examples are stored is known beforehand, so it is worked out
        for many steps at once; a step is then only the network and the memory's copies.
        """
        self._check(x, y, batch)
        count = y.shape[1]
        loss = torch.zeros(self.runs)
        start = 0
        while start < count:
            size = min(batch, count - start)
            replay, steps = self._stretch(size, count - start)
            stop = start + size * steps
            batches = zip(
                _by_step(x[:, start:stop], steps),
                _by_step(y[:, start:stop], steps),
                *self._plan(size, replay, steps),
                strict=True,
            )
            for tensors in batches:
                if self.network.strategy == "loop":
                    noise = bits(self.seeds, Purpose.NOISE, self.steps)
                    self.network.noise = noise.tolist()
                loss = self._advance(*tensors)
                self.steps += 1
            self.seen += size * steps
            start = stop
        return loss

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """The logits `[K, n, C]` of examples `[K, n, ...]`, or `[1, n, ...]` for all runs alike."""
        inputs = as_input(x, self.network.dtype).expand(self.runs, *x.shape[1:])
        self.network.module.eval()
        try:
            return self.network(self.weights, inputs)
        finally:
            self.network.module.train()

    def _check_network(self, shape: tuple[int, ...], stored: torch.dtype) -> None:
        """Refuse a network that does not take the examples, or whose head is of another size."""
        blank = torch.zeros(self.runs, 1, *shape, dtype=stored)
        try:
            self.network.settle(as_input(blank, self.network.dtype))
            found = list(self.logits(blank).shape[1:])
        except RuntimeError as error:
            raise InputError(
                f"the network cannot take examples of shape {list(shape)}: "
                f"{str(error).splitlines()[0]}"
            ) from None
        if found != [1, self.classes]:
            raise InputError(
                f"the network must give {self.classes} logits for an example, not {found[1:]}"
            )

    def _check(self, x: Tensor, y: Tensor, batch: int) -> None:
        """Refuse what cannot be learnt from, before anything changes."""
        if batch < 1:
            raise InputError(f"a batch must have at least 1 example, not {batch}")
        if y.dim() != 2 or x.shape[:2] != y.shape or len(y) != self.runs:
            raise InputError(
                f"x must be [{self.runs}, n, ...] and y [{self.runs}, n] for {self.runs} runs, "
                f"not {list(x.shape)} and {list(y.shape)}"
            )
        if y.numel() and not 0 <= int(y.min()) <= int(y.max()) < self.classes:
            raise InputError(
                f"labels must be in 0..{self.classes - 1}, the head of the network, "
                f"not {int(y.min())}..{int(y.max())}"
            )

    def _stretch(self, size: int, left: int) -> tuple[int, int]:
        """How many examples to replay, and for how many steps of `size` that stays so."""
        filled = self.rule.filled(self.seen)
        if filled < min(self.replay, self.rule.capacity) and self.kind.uses_memory():
            return filled, 1
        return min(self.replay, filled), min(left // size, PLANNED)

    def _plan(self, size: int, replay: int, steps: int) -> tuple[Tensor, Tensor]:
        """The rows of memory to read, `[steps, K, draws * replay]`, and to write, `[.., size]`."""
        if not self.kind.uses_memory():
            nothing = torch.zeros(steps, self.runs, 0, dtype=torch.int64)
            return nothing, nothing
        slots = self.rule.slots(self.seeds, self.seen, steps, size)
        filled = [self.rule.filled(self.seen + step * size) for step in range(steps)]
        drawn = self.rule.draws(
            self.seeds, self.steps, filled=torch.tensor(filled), draws=self.kind.draws, size=replay
        )
        return self.memory.rows(drawn.flatten(2)), self.memory.rows(slots)

    def _state(self) -> State:
        return State(self.weights, self.memory, self.method, -self.lr)

    def _compiled(self) -> Compiled:
        state = self._state()
        fixed = len(state.tensors())

        def step(*tensors: Any) -> Tensor:
            return self._step(state.over(*tensors[:fixed]), *tensors[fixed:])

        return Compiled(step, state.tensors())

    def _step(self, state: State, x: Tensor, y: Tensor, read: Tensor, write: Tensor) -> Tensor:
        """One step of all runs; it changes the state's tensors in place and returns the loss."""
        leaves = self.network.watch(state.weights)
        past = state.memory.read(read)
        size = read.shape[1] // max(self.kind.draws, 1)
        step = Step(
            x,
            y,
            lambda batch: self.network(leaves, as_input(batch, self.network.dtype)),
            [past.narrow(draw * size, size) for draw in range(self.kind.draws)],
            separate=bool(self.network.buffers),
        )
        loss = state.method.loss(step)
        state.weights.add_(self.network.gradient(leaves, loss), state.descent)
        state.memory.write(write, step.kept)
        return loss.detach()


@dataclass(frozen=True)
class State:
    """What a step reads and changes; `descent` is the rate of every run, downwards."""

    weights: Weights
    memory: Memory
    method: Method
    descent: Tensor

    def tensors(self) -> tuple[Tensors, Tensors, Tensors, Tensor]:
        """The same as plain tensors, for a step that is captured."""
        names = self.method.hyperparameters()
        hyper = {name: getattr(self.method, name) for name in names}
        return self.weights.named(), self.memory.tensors, hyper, self.descent

    def over(self, weights: Tensors, memory: Tensors, hyper: Tensors, descent: Tensor) -> State:
        """The same state, kept in other tensors."""
        method = replace(self.method, **hyper)
        return State(Weights(weights), self.memory.over(memory), method, descent)


def _by_step(stretch: Tensor, steps: int) -> Tensor:
    """The batches of a stretch `[K, steps * B, ...]`, each contiguous: `[steps, K, B, ...]`."""
    runs, _, *shape = stretch.shape
    return stretch.reshape(runs, steps, -1, *shape).transpose(0, 1).contiguous()


def _stacked(methods: Sequence[Method], dtype: torch.dtype) -> Method:
    """One method whose hyper-parameters are tensors `[K]`, one value per run."""
    names = type(methods[0]).hyperparameters()
    columns = {name: [getattr(method, name) for method in methods] for name in names}
    stacked = {name: torch.tensor(column, dtype=dtype) for name, column in columns.items()}
    return replace(methods[0], **stacked)
