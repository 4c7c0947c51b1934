"""The state of a fleet that a step changes, as an object or as a list of tensors."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recollect.core.fleet_optimiser import FleetOptimiser
from recollect.core.torch_optimiser import Optimiser
from recollect.core.weights import State, Weights
from recollect.methods import Method, static, varying


@dataclass(frozen=True)
class FleetState:
    """Weights, buffers, hyper-parameters, learning rates `[K]` and optimiser of K runs."""

    weights: Weights
    buffers: Mapping[str, Tensor]
    method: Method
    rate: Tensor
    state: State
    optimiser: Optimiser | None = None

    @property
    def kind(self) -> Hashable:
        """A key of everything that a compiled step depends on besides `tensors`."""
        kind, optimiser = type(self.method), self.optimiser
        fixed = (getattr(self.method, name) for name in static(kind))
        moves = optimiser.kind if isinstance(optimiser, FleetOptimiser) else None
        return kind, *fixed, moves

    def tensors(self) -> list[Tensor]:
        """Return the state as a list of tensors, for a compiled step."""
        hyper = (getattr(self.method, name) for name in varying(type(self.method)))
        moved = self.optimiser.tensors() if isinstance(self.optimiser, FleetOptimiser) else []
        buffers, state = self.buffers.values(), self.state.values()
        return [*self.weights, *buffers, *state, *hyper, self.rate, *moved]

    def over(self, tensors: Sequence[Tensor]) -> FleetState:
        """Return the state with other tensors, in the order of `tensors`."""
        each = iter(tensors)
        weights = Weights({name: next(each) for name in self.weights.named()})
        buffers = {name: next(each) for name in self.buffers}
        state = State({name: next(each) for name in self.state})
        hyper = {name: next(each) for name in varying(type(self.method))}
        method, rate = replace(self.method, **hyper), next(each)
        optimiser = self.optimiser
        if isinstance(optimiser, FleetOptimiser):
            optimiser = optimiser.over(list(each))
        return FleetState(weights, buffers, method, rate, state, optimiser)

    def row(self, run: int) -> FleetState:
        """Return one run as a fleet of one; its weights are views of the same tensors."""
        here, optimiser = slice(run, run + 1), self.optimiser
        names = varying(type(self.method))
        hyper = {name: getattr(self.method, name)[here].clone() for name in names}
        return FleetState(
            self.weights.row(run),
            {name: tensor[here] for name, tensor in self.buffers.items()},
            replace(self.method, **hyper),
            self.rate[here].clone(),
            self.state.row(run),
            optimiser.row(run) if isinstance(optimiser, FleetOptimiser) else optimiser,
        )


def stacked(methods: Sequence[Method], dtype: torch.dtype, device: torch.device) -> Method:
    """Combine methods into one whose hyper-parameters are tensors `[K]`, one value per run."""
    columns = {n: [getattr(method, n) for method in methods] for n in varying(type(methods[0]))}
    tensors = {n: torch.tensor(c, dtype=dtype, device=device) for n, c in columns.items()}
    return replace(methods[0], **tensors)
