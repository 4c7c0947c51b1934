"""A fleet of one run that learns step by step, can take a step back, and can grow."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, final

import torch
from torch import Tensor, nn

from recollect.core.inputs import as_input
from recollect.core.random import Purpose, bits, permute
from recollect.core.transforms import Transforms
from recollect.errors import InputError, RecollectError
from recollect.learner.examples import Kind
from recollect.learner.growth import laid_over, outputs_of, padded, said, with_outputs
from recollect.memory import Clock
from recollect.methods import Method
from recollect.train import Fleet
from recollect.train.guard import Guard

__all__ = ["Engine", "Settings", "bytes_in"]

ROWS = 1000
UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


@final
@dataclass(frozen=True)
class Settings:
    """What a learner was told when it was made."""

    method: Method
    memory: int | str
    lr: float
    seed: int
    replay: int
    optimiser: str
    options: Mapping[str, Any] = field(default_factory=dict)
    spare: int = 0

    def capacity(self, kind: Kind, outputs: int, dtype: torch.dtype) -> int:
        """How many examples the memory holds, of this kind and with so many logits."""
        if isinstance(self.memory, int) or self.method.replay is None:
            return self.memory if isinstance(self.memory, int) else 0
        fields = self.method.replay.layout((kind.shape, kind.dtype), outputs, dtype)
        each = sum(torch.Size(shape).numel() * type_.itemsize for shape, type_ in fields.values())
        found = bytes_in(self.memory) // each
        if found < 1:
            raise InputError(
                f"a memory of {self.memory} has no room for an example of {each} bytes"
            )
        return found


def bytes_in(size: str) -> int:
    """How many bytes a size in words is.

    >>> bytes_in("64 MB"), bytes_in("1.5 GiB"), bytes_in("200kb")
    (64000000, 1610612736, 200000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", size)
    if not found or found[2].lower() not in UNITS:
        raise InputError(
            f"a memory is a number of examples or a size such as '64 MB', not {size!r}"
        )
    return int(float(found[1]) * UNITS[found[2].lower()])


@final
class Engine:
    """The network, the memory and the method of a learner, for examples of one kind."""

    def __init__(
        self,
        module: nn.Module,
        settings: Settings,
        kind: Kind,
        outputs: int,
        transforms: Transforms | None,
        device: torch.device,
    ) -> None:
        self.settings, self.kind = settings, kind
        self._transforms, self._device = transforms, device
        self.module = module = module.to(device)
        blank = as_input(torch.zeros(kind.shape, dtype=kind.dtype, device=device), _dtype(module))
        has = outputs_of(module, blank)
        if has < outputs:
            self.module = module = with_outputs(module, outputs, settings.seed)
            has = outputs_of(module, blank)
            if has < outputs:
                raise InputError(
                    "the last linear layer of the network does not give its logits, so it cannot "
                    "get more of them: give it one for every class, and say which there will be "
                    "(classes=[...])"
                )
        self.outputs = has
        plain = settings.optimiser.lower() == "sgd" and not settings.options
        self.fleet = Fleet(
            [settings.method],
            module,
            seeds=[settings.seed],
            lr=[settings.lr],
            classes=has,
            shape=kind.shape,
            memory=settings.capacity(kind, has, _dtype(module)),
            replay=settings.replay,
            stored=kind.dtype,
            images=transforms,
            dtype=_dtype(module),
            device=device,
            compiled=False,
            strategy=None if getattr(module, "broadcasts_runs", False) else "loop",
            optimiser=None if plain else (settings.optimiser, settings.options),
            guarded=True,
        )
        trained = self.fleet.network.trained
        self._guard.expect_seldom(
            t for n, t in self.fleet.weights.named().items() if n not in trained
        )
        self._before = self.fleet.clock

    def begin(self) -> None:
        """What was learned so far stays; only the step to come can be undone."""
        self._guard.forget()
        self._before = self.fleet.clock

    def step(self, x: Tensor, y: Tensor) -> float:
        """Learn from a batch `[n, ...]` with labels `[n]`; the loss. `undo` takes it back."""
        self._guard.note()
        with _USERS:
            return float(self.fleet.learn(x.unsqueeze(0), y.unsqueeze(0), len(y)))

    def undo(self) -> None:
        """Take back what was done since `begin`."""
        self._guard.undo()
        self.fleet.clock = self._before

    @property
    def _guard(self) -> Guard:
        assert self.fleet.guard is not None
        return self.fleet.guard

    def logits(self, x: Tensor) -> Tensor:
        """What the network says of a batch `[n, ...]`, `[n, outputs]`."""
        with _USERS:
            parts = [self.fleet.predict(part.unsqueeze(0))[0] for part in x.split(ROWS)]  # type: ignore[no-untyped-call]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def grown(self, outputs: int) -> Engine:
        """The same with more outputs; this one stays as it is.

        The new outputs start at the level that outputs have for examples of other classes, and
        the memory gets the logits that they have for what it holds: as if they had been there.
        """
        bigger = self._again(outputs)
        larger = bigger.fleet.tensors()
        shapes = {name: tensor.shape for name, tensor in larger.items()}
        weights = {n: t.shape[1:] for n, t in bigger.fleet.weights.named().items()}
        old = self.fleet.weights.named()
        kept = self._kept(bigger.fleet.memory.capacity)
        state: dict[str, Tensor] = {}
        for name, tensor in self.fleet.tensors().items():
            part, _, rest = name.partition(".")
            if part == "state" and tensor.shape != shapes[name]:
                raise InputError(
                    f"{self.settings.method.title} keeps something for every class: say which "
                    f"there will be (classes=[...])"
                )
            if part == "memory":
                state[name] = padded(tensor[kept] if kept is not None else tensor, shapes[name])
            elif part == "optimiser":
                owner = rest.rpartition(".")[0]
                like = tensor.shape == old[owner].shape[1:]
                if tensor.dim() and not like and old[owner].shape[1:] != weights[owner]:
                    raise InputError(
                        f"{self.settings.optimiser} keeps {rest} in a shape that does not grow "
                        f"with the classes: say which there will be (classes=[...])"
                    )
                state[name] = padded(tensor, weights[owner]) if like else tensor
            elif part == "weights":
                state[name] = laid_over(tensor, larger[name])
            else:
                state[name] = padded(tensor, shapes[name])
        bigger.fleet.restore(state, self.fleet.clock)
        bigger._start_outputs(self.outputs, self._level())
        return bigger

    @torch.no_grad()
    def _start_outputs(self, first: int, level: float) -> None:
        """Let the outputs from `first` on begin at a level; the memory notes what they say."""
        network, memory = self.fleet.network, self.fleet.memory.tensors
        for name in network.head_axes:
            if name.split(".")[-1] == "bias":
                network.weights.named()[name][:, first:] = level
        filled = min(self.fleet.seen, self.fleet.memory.capacity)
        if filled and "logits" in memory:
            memory["logits"][:filled, first:] = self.logits(memory["x"][:filled])[:, first:]

    @torch.no_grad()
    def _level(self) -> float:
        """What outputs say, on average, of remembered examples of other classes."""
        memory, fleet = self.fleet.memory.tensors, self.fleet
        filled = min(fleet.seen, fleet.memory.capacity, ROWS)
        if not filled or self.outputs < 2 or not {"x", "y"} <= memory.keys():
            return 0.0
        logits = self.logits(memory["x"][:filled])
        other = torch.ones_like(logits, dtype=torch.bool)
        other.scatter_(1, memory["y"][:filled, None], False)
        return float(logits[other].mean())

    def _kept(self, capacity: int) -> Tensor | None:
        """The rows of memory that stay if it must shrink, a uniform choice; None if all do."""
        fleet = self.fleet
        if capacity >= fleet.memory.capacity:
            return None
        filled = min(fleet.seen, fleet.memory.capacity)
        key = bits(fleet.seeds[0], Purpose.KEEP, fleet.steps)
        chosen = permute(key, torch.arange(min(capacity, filled), device=self._device), filled)
        spare = chosen.new_full((capacity + 1 - len(chosen),), fleet.memory.capacity)
        return torch.cat([chosen, spare])

    def _again(self, outputs: int) -> Engine:
        return Engine(
            with_outputs(self.module, outputs, self.settings.seed), self.settings, self.kind,
            outputs, self._transforms, self._device,
        )  # fmt: skip

    def restore(self, tensors: Mapping[str, Tensor], clock: Clock) -> None:
        """Go to a saved state."""
        self.fleet.restore(tensors, clock)

    @torch.no_grad()
    def trained(self) -> nn.Module:
        """The user's module with what was learned, to use elsewhere."""
        module = copy.deepcopy(self.module)
        tensors = {**self.fleet.weights.named(), **self.fleet.network.buffers}
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            tensor.copy_(tensors[name][0])
        return module


@final
class _Users:
    """What the user's network and transforms raise becomes an `InputError`, whatever it is."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if not isinstance(error, Exception):
            return
        if not isinstance(error, RecollectError | torch.OutOfMemoryError | MemoryError):
            raise InputError(
                f"the network or a transform cannot take these examples: {said(error)}"
            ) from error


_USERS = _Users()


def _dtype(module: nn.Module) -> torch.dtype:
    """The type of a module's weights."""
    floats = (p.dtype for p in module.parameters() if p.is_floating_point())
    return next(floats, torch.float32)
