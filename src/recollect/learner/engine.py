"""What a learner trains: a fleet of one run that can undo a step and get more outputs."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, final

import torch
from torch import Tensor, nn

from recollect.core.inputs import as_input
from recollect.core.random import Purpose, bits, permute
from recollect.core.transforms import Transform, Transforms
from recollect.errors import DivergedError, InputError, RecollectError
from recollect.learner.examples import Kind
from recollect.learner.growth import (
    NOT_THE_LOGITS,
    first_line,
    outputs_of,
    overlaid,
    padded,
    with_outputs,
)
from recollect.learner.labels import Labels
from recollect.learner.settings import Settings
from recollect.methods import Method
from recollect.train import Fleet
from recollect.train.guard import Guard

__all__ = ["Engine", "EngineFactory", "transforms_of"]

ROWS = 1000


@final
@dataclass(frozen=True)
class EngineFactory:
    """What a learner's engine is made of, once its first examples have arrived."""

    module: nn.Module
    settings: Settings
    transforms: Transforms | None
    device: torch.device

    def first(self, batch: Tensor, labels: Labels) -> Engine:
        """The engine for a stream that begins with this batch `[n, ...]` of these labels."""
        kind, spare = Kind(tuple(batch.shape[1:]), batch.dtype), self.settings.spare
        engine = Engine(self, kind, len(labels))
        if engine.outputs > len(labels) or labels.fixed or not spare:
            return engine
        try:
            return Engine(self, kind, len(labels) + spare)
        except InputError:  # it cannot grow, and may never have to
            return engine

    def arguments(self) -> dict[str, Any]:
        """The arguments of a learner that are not in its file."""
        return {
            "transform": self.transforms and self.transforms.arriving,
            "replay_transform": self.transforms and self.transforms.replayed,
            "device": str(self.device),
        }


@final
class Engine:
    """The network, the memory and the method of a learner, for examples of one kind.

    It has at least so many outputs. It is a fleet of one run, whose last step can be undone.
    """

    def __init__(self, factory: EngineFactory, kind: Kind, outputs: int) -> None:
        settings, device = factory.settings, factory.device
        self._factory, self.kind = factory, kind
        self._user_errors = _user_errors(settings.method)
        self.module = module = factory.module.to(device)
        blank = as_input(torch.zeros(kind.shape, dtype=kind.dtype, device=device), _dtype(module))
        has = outputs_of(module, blank)
        if has < outputs:
            self.module = module = with_outputs(module, outputs, settings.seed)
            has = outputs_of(module, blank)
            if has < outputs:
                raise InputError(NOT_THE_LOGITS)
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
            images=factory.transforms,
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
        """Begin a step: what was learned before cannot be undone any more."""
        self._guard.forget()
        self._before = self.fleet.clock

    def step(self, x: Tensor, y: Tensor) -> float:
        """Learn from a batch `[n, ...]` with labels `[n]`; the loss."""
        self._guard.note()
        try:
            with self._user_errors:
                return float(self.fleet.learn(x.unsqueeze(0), y.unsqueeze(0), len(y)))
        except DivergedError:
            raise DivergedError(
                "the loss or the weights are not finite after this step, which was taken "
                "back: take a lower lr, or scale the examples"
            ) from None

    def undo(self) -> None:
        """Restore the state at the last `begin`."""
        self._guard.undo()
        self.fleet.clock = self._before

    @property
    def _guard(self) -> Guard:
        assert self.fleet.guard is not None
        return self.fleet.guard

    def logits(self, x: Tensor) -> Tensor:
        """The scores `[n, outputs]` of a batch `[n, ...]`, in evaluation mode."""
        with self._user_errors:
            parts = [self.fleet.predict(part.unsqueeze(0))[0] for part in x.split(ROWS)]  # type: ignore[no-untyped-call]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def grown(self, outputs: int) -> Engine:
        """A copy of this engine with more outputs.

        The biases of the new outputs start at the mean logit of the stored examples' other
        classes, and the stored logits are extended by what the new outputs predict.
        """
        settings = self._factory.settings
        module = with_outputs(self.module, outputs, settings.seed)
        bigger = Engine(replace(self._factory, module=module), self.kind, outputs)
        larger = bigger.fleet.tensors()
        shapes = {name: tensor.shape for name, tensor in larger.items()}
        weights = {n: t.shape[1:] for n, t in bigger.fleet.weights.named().items()}
        old = self.fleet.weights.named()
        rows = self._rows_that_fit(bigger.fleet.memory.capacity)
        state: dict[str, Tensor] = {}
        for name, tensor in self.fleet.tensors().items():
            part, _, rest = name.partition(".")
            if part == "state" and tensor.shape != shapes[name]:
                raise InputError(
                    f"{settings.method.title} has state for every class: say which "
                    f"there will be (classes=[...])"
                )
            if part == "memory":
                state[name] = padded(tensor[rows] if rows is not None else tensor, shapes[name])
            elif part == "optimiser":
                owner = rest.rpartition(".")[0]
                like = tensor.shape == old[owner].shape[1:]
                if tensor.dim() and not like and old[owner].shape[1:] != weights[owner]:
                    raise InputError(
                        f"{settings.optimiser} keeps {rest} in a shape that does not grow "
                        f"with the classes: say which there will be (classes=[...])"
                    )
                state[name] = padded(tensor, weights[owner]) if like else tensor
            elif part == "weights":
                state[name] = overlaid(tensor, larger[name])
            else:
                state[name] = padded(tensor, shapes[name])
        bigger.fleet.restore(state, self.fleet.clock)
        bigger._start_outputs(self.outputs, self._mean_other_logit())
        return bigger

    @torch.no_grad()
    def _start_outputs(self, first: int, bias: float) -> None:
        network, memory = self.fleet.network, self.fleet.memory.tensors
        for name in network.head_axes:
            if name.split(".")[-1] == "bias":
                network.weights.named()[name][:, first:] = bias
        filled = min(self.fleet.seen, self.fleet.memory.capacity)
        if filled and "logits" in memory:
            memory["logits"][:filled, first:] = self.logits(memory["x"][:filled])[:, first:]

    @torch.no_grad()
    def _mean_other_logit(self) -> float:
        memory, fleet = self.fleet.memory.tensors, self.fleet
        filled = min(fleet.seen, fleet.memory.capacity, ROWS)
        if not filled or self.outputs < 2 or not {"x", "y"} <= memory.keys():
            return 0.0
        logits = self.logits(memory["x"][:filled])
        other = torch.ones_like(logits, dtype=torch.bool)
        other.scatter_(1, memory["y"][:filled, None], False)
        return float(logits[other].mean())

    def _rows_that_fit(self, capacity: int) -> Tensor | None:
        """The rows of a memory that has to shrink, chosen at random; None if all of them fit."""
        fleet = self.fleet
        if capacity >= fleet.memory.capacity:
            return None
        filled = min(fleet.seen, fleet.memory.capacity)
        key = bits(fleet.seeds[0], Purpose.KEEP, fleet.steps)
        chosen = permute(
            key, torch.arange(min(capacity, filled), device=self._factory.device), filled
        )
        unused = chosen.new_full((capacity + 1 - len(chosen),), fleet.memory.capacity)
        return torch.cat([chosen, unused])

    @torch.no_grad()
    def trained(self) -> nn.Module:
        """A copy of the user's module with the weights and buffers that were learned."""
        module = copy.deepcopy(self.module)
        tensors = {**self.fleet.weights.named(), **self.fleet.network.buffers}
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            tensor.copy_(tensors[name][0])
        return module


@final
@dataclass(frozen=True)
class _UserErrors:
    """Turns whatever the user's network, transforms and method raise into an `InputError`."""

    whose: str

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
                f"{self.whose} cannot take these examples: {first_line(error)}"
            ) from error


def _user_errors(method: Method) -> _UserErrors:
    own = not type(method).__module__.startswith("recollect.")
    others = "the network or a transform"
    return _UserErrors(f"the method {method.title}, {others}" if own else others)


def transforms_of(
    transform: Transform | None, replay_transform: Transform | None
) -> Transforms | None:
    """The functions that change the batches which arrive and are replayed, if there are any."""
    given = {"transform": transform, "replay_transform": replay_transform}
    for name, function in given.items():
        if function is not None and not callable(function):
            raise InputError(f"{name} must be a function of a batch, not {function!r}")
    unset = transform is None and replay_transform is None
    return None if unset else Transforms(transform, replay_transform)


def _dtype(module: nn.Module) -> torch.dtype:
    floats = (p.dtype for p in module.parameters() if p.is_floating_point())
    return next(floats, torch.float32)
