"""What a step of a fleet reads and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recollect.core.state import State
from recollect.core.weights import Weights
from recollect.methods import Method, varying

__all__ = ["FleetState", "stacked"]


@dataclass(frozen=True)
class FleetState:
    """The weights of K runs and all that goes with them; `rate` is the learning rate, `[K]`."""

    weights: Weights
    buffers: Mapping[str, Tensor]
    method: Method
    rate: Tensor
    state: State

    def tensors(self) -> list[Tensor]:
        """The same as plain tensors, for a step that is compiled."""
        hyper = (getattr(self.method, name) for name in varying(type(self.method)))
        return [*self.weights, *self.buffers.values(), *self.state.values(), *hyper, self.rate]

    def over(self, tensors: Sequence[Tensor]) -> FleetState:
        """The same with other tensors, in the order of `tensors`."""
        each = iter(tensors)
        weights = Weights({name: next(each) for name in self.weights.named()})
        buffers = {name: next(each) for name in self.buffers}
        state = State({name: next(each) for name in self.state})
        hyper = {name: next(each) for name in varying(type(self.method))}
        return FleetState(weights, buffers, replace(self.method, **hyper), next(each), state)

    def rows(self) -> list[FleetState]:
        """Every run as a fleet of one, in the same memory."""
        return [self._row(run) for run in range(self.weights.runs)]

    def _row(self, run: int) -> FleetState:
        here = slice(run, run + 1)
        names = varying(type(self.method))
        hyper = {name: getattr(self.method, name)[here].clone() for name in names}
        return FleetState(
            self.weights.row(run),
            {name: tensor[here] for name, tensor in self.buffers.items()},
            replace(self.method, **hyper),
            self.rate[here].clone(),
            self.state.row(run),
        )


def stacked(methods: Sequence[Method], dtype: torch.dtype, device: torch.device) -> Method:
    """One method whose hyper-parameters are tensors `[K]`, one value per run."""
    columns = {n: [getattr(method, n) for method in methods] for n in varying(type(methods[0]))}
    tensors = {n: torch.tensor(c, dtype=dtype, device=device) for n, c in columns.items()}
    return replace(methods[0], **tensors)
