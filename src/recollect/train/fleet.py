"""A fleet: K runs of one method that learn as one computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from recollect.core.images import Images
from recollect.core.inputs import as_input
from recollect.core.network import Network
from recollect.core.random import Purpose, bits
from recollect.errors import InputError
from recollect.memory import Memory, Remembered, Reservoir
from recollect.methods import Method, Step
from recollect.train.compiled import Compiled, compiler_exists
from recollect.train.execution import (
    Lanes,
    Plain,
    Replayed,
    Stacks,
    compiling_pays,
    fast_arithmetic,
)
from recollect.train.state import State, stacked

__all__ = ["Fleet"]

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
        images: Images | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
        half: bool = False,
        recorded: bool | None = None,
        compiled: bool | None = None,
        steps: int = 0,
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
        self.device = torch.device(device)
        self.seeds = torch.tensor(list(seeds), dtype=torch.int64, device=self.device)
        self.images = images
        on_gpu = self.device.type == "cuda"
        self.network = Network(
            network, seeds, dtype=dtype, device=self.device, half=half, channels_last=on_gpu
        )
        self.weights = self.network.weights
        self.rule = Reservoir(memory)
        self.replay = replay
        known = {"x": (shape, stored), "y": ((), torch.int64), "logits": ((classes,), dtype)}
        if unknown := set(self.kind.remembers) - set(known):
            raise InputError(f"a memory keeps x, y and logits, not {', '.join(sorted(unknown))}")
        fields = {name: known[name] for name in self.kind.remembers}
        self.memory = Memory(len(seeds), memory if fields else 0, fields, self.device)
        self.seen = 0
        self.steps = 0
        self.classes = classes
        self._check_network(shape, stored)
        rates = -torch.tensor(list(lr), dtype=dtype, device=self.device)
        method = stacked(methods, dtype, self.device)
        state = State(self.weights, self.network.buffers, method, rates)
        one_by_one = self.network.strategy == "loop"
        self._states = state.rows() if one_by_one else [state]
        self._lanes = Lanes(self.device, len(self._states))
        if compiled is None:
            compiled = compiler_exists() and compiling_pays(
                self.device, one_by_one, steps, self.runs
            )
        if recorded is None:
            recorded = on_gpu
        # Layers that draw random numbers are seeded from outside the step, every time.
        compiled, recorded = (way and not self.network.noisy for way in (compiled, recorded))
        self._compiled = Compiled(self._learn_over, self._kind_of_step()) if compiled else None
        self._take = Replayed(self._step, self.device) if recorded else Plain(self._step)
        self._usual = (0, 0)

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
        full = min(self.replay, self.rule.capacity) * self.kind.draws
        self._usual = (batch, full)
        loss = torch.zeros(self.runs, device=self.device)
        start = 0
        with fast_arithmetic(self.device):
            while start < count:
                size = min(batch, count - start)
                replay, steps = self._stretch(size, count - start)
                stop = start + size * steps
                stacks = {
                    "x": _by_step(x[:, start:stop], steps),
                    "y": _by_step(y[:, start:stop], steps),
                    **self._plan(size, replay, steps),
                }
                loss = self._take(stacks)
                self.steps += steps
                self.seen += size * steps
                start = stop
        return loss

    @property
    def execution(self) -> str:
        """How its steps are carried out, in words."""
        how = []
        if isinstance(self._take, Replayed):
            how.append("CUDA graph" if self.device.type == "cuda" else "recorded step")
        if len(self._lanes) > 1:
            how.append(f"{len(self._lanes)} streams")
        if self._compiled is not None:
            how.append("compiled")
        if self.network.half:
            how.append("bf16")
        return ", ".join([self.network.strategy, *(how or ["eager"])])

    def tensors(self) -> Stacks:
        """Every tensor that learning changes; with `seen` and `steps`, its whole state."""
        parts = {
            "weights": self.weights.named(),
            "buffers": self.network.buffers,
            "memory": self.memory.tensors,
        }
        return {f"{part}.{n}": t for part, tensors in parts.items() for n, t in tensors.items()}

    def restore(self, tensors: Stacks, *, seen: int, steps: int) -> None:
        """Go to a state that another fleet of the same kind was in."""
        mine = self.tensors()
        if mine.keys() != tensors.keys():
            raise InputError("the saved state belongs to another network or method")
        for name, tensor in mine.items():
            tensor.copy_(tensors[name])
        self.seen, self.steps = seen, steps

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """The logits `[K, n, C]` of examples `[K, n, ...]`, or `[1, n, ...]` for all runs alike."""
        dtype = self.network.dtype
        inputs = as_input(x, dtype) if self.images is None else self.images.plain(x, dtype)
        inputs = inputs.expand(self.runs, *x.shape[1:])
        self.network.module.eval()
        try:
            with fast_arithmetic(self.device), self.network.seeded(0):
                return self.network(self.weights, inputs)
        finally:
            self.network.module.train()

    def _check_network(self, shape: tuple[int, ...], stored: torch.dtype) -> None:
        """Refuse a network that does not take the examples, or whose head is of another size."""
        blank = torch.zeros(self.runs, 2, *shape, dtype=stored, device=self.device)
        try:
            self.network.settle(as_input(blank, self.network.dtype))
            found = list(self.logits(blank).shape[1:])
        except RuntimeError as error:
            raise InputError(
                f"the network cannot take examples of shape {list(shape)}: "
                f"{str(error).splitlines()[0]}"
            ) from None
        if found != [2, self.classes]:
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

    def _plan(self, size: int, replay: int, steps: int) -> Stacks:
        """What is random in the coming steps: none of it depends on the weights.

        The rows of memory to read and to write, how images are shown, and seeds for layers that
        draw random numbers of their own; `[steps, K, ...]` each.
        """
        nothing = torch.zeros(steps, self.runs, 0, dtype=torch.int64, device=self.device)
        plan = {"read": nothing, "write": nothing}
        draws = self.kind.draws
        if self.kind.uses_memory():
            slots = self.rule.slots(self.seeds, self.seen, steps, size)
            seen = torch.arange(self.seen, self.seen + steps * size, size, device=self.device)
            filled = seen.clamp(max=self.rule.capacity)
            drawn = self.rule.draws(
                self.seeds, self.steps, filled=filled, draws=draws, size=replay
            ).flatten(2)
            plan = {"read": self.memory.rows(drawn), "write": self.memory.rows(slots)}
        if self.images is not None:
            rows = size + draws * replay
            plan["views"] = self.images.views(self.seeds, self.steps, steps, rows)
        if self.network.noisy:
            when = torch.arange(self.steps, self.steps + steps, device=self.device)
            plan["noise"] = bits(self.seeds, Purpose.NOISE, when[:, None])
        return plan

    def _step(
        self,
        x: Tensor,
        y: Tensor,
        read: Tensor,
        write: Tensor,
        views: Tensor | None = None,
        noise: Tensor | None = None,
    ) -> Tensor:
        """One step of all runs, in place; the loss `[K]`.

        Memory is read and written for all runs at once; between the two, runs that are computed
        one by one go side by side.
        """
        past = self.memory.read(read)
        shown, again = x, past
        if self.images is not None and views is not None:
            dtype, size = self.network.dtype, x.shape[1]
            shown = self.images.shown(x, views[:, :size], dtype)
            if "x" in past:
                replayed = self.images.shown(past.x, views[:, size:], dtype)
                again = Remembered({**past, "x": replayed})
        usual = self._compiled is not None and (x.shape[1], read.shape[1]) == self._usual
        lanes = len(self._states)
        pieces = zip(*(t.chunk(lanes) for t in (shown, y, *again.values())), strict=True)
        learn = [
            partial(self._compiled, *state.tensors(), *piece)
            if self._compiled is not None and usual
            else partial(self._learn, state, *piece)
            for state, piece in zip(self._states, pieces, strict=True)
        ]
        if noise is not None:
            learn = [
                partial(self._seeded, *each) for each in zip(noise.tolist(), learn, strict=True)
            ]
        outcomes = self._lanes(learn)
        loss, *kept = outcomes[0] if lanes == 1 else map(torch.cat, zip(*outcomes, strict=True))
        self.memory.write(write, {"x": x, "y": y, **dict(zip(self._noted, kept, strict=True))})
        return loss

    @property
    def _noted(self) -> list[str]:
        """What the memory keeps besides examples and labels."""
        return [name for name in self.kind.remembers if name not in ("x", "y")]

    def _seeded(self, seed: int, learn: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        with self.network.seeded(seed):
            return learn()

    def _kind_of_step(self) -> str:
        """What a compiled step depends on besides the shapes of its tensors."""
        network = self.network
        parts = (self.kind, network.module, network.strategy, network.dtype, network.half)
        return repr(parts)

    def _learn_over(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """The same with the state as plain tensors, to be compiled."""
        state = self._states[0]
        fixed = len(state.tensors())
        with self.network.written_out():
            return self._learn(state.over(tensors[:fixed]), *tensors[fixed:])

    def _learn(self, state: State, x: Tensor, y: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """One step of the runs of a state, in place; the loss and what the method notes."""
        leaves = self.network.watch(state.weights)
        replayed = Remembered(zip(self.kind.remembers, past, strict=True))
        size = past[0].shape[1] // self.kind.draws if past else 0
        step = Step(
            x,
            y,
            lambda batch, parts: self.network(
                leaves, as_input(batch, self.network.dtype), parts, state.buffers
            ),
            [replayed.narrow(draw * size, size) for draw in range(self.kind.draws)],
            separate=self.network.separate,
        )
        loss = state.method.loss(step)
        state.weights.add_(self.network.gradient(leaves, loss), state.descent)
        return loss.detach(), *(step.kept[name] for name in self._noted)


def _by_step(stretch: Tensor, steps: int) -> Tensor:
    """The batches of a stretch `[K, steps * B, ...]`, each contiguous: `[steps, K, B, ...]`."""
    runs, _, *shape = stretch.shape
    return stretch.reshape(runs, steps, -1, *shape).transpose(0, 1).contiguous()
