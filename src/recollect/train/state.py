"""What a step of a fleet reads and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recollect.core.weights import Weights
from recollect.methods import Method

__all__ = ["State", "stacked"]


@dataclass(frozen=True)
class State:
    """The weights of K runs and all that goes with them; `rate` is the learning rate, `[K]`."""

    weights: Weights
    buffers: Mapping[str, Tensor]
    method: Method
    rate: Tensor
    own: Mapping[str, Tensor]

    def tensors(self) -> list[Tensor]:
        """The same as plain tensors, for a step that is compiled."""
        hyper = (getattr(self.method, name) for name in self.method.varying())
        return [*self.weights, *self.buffers.values(), *self.own.values(), *hyper, self.rate]

    def over(self, tensors: Sequence[Tensor]) -> State:
        """The same state, kept in other tensors."""
        each = iter(tensors)
        weights = Weights({name: next(each) for name in self.weights.named()})
        buffers = {name: next(each) for name in self.buffers}
        own = {name: next(each) for name in self.own}
        hyper = {name: next(each) for name in self.method.varying()}
        return State(weights, buffers, replace(self.method, **hyper), next(each), own)

    def rows(self) -> list[State]:
        """Every run as a fleet of one, in the same memory."""
        return [self._row(run) for run in range(self.weights.runs)]

    def _row(self, run: int) -> State:
        here = slice(run, run + 1)
        names = self.method.varying()
        hyper = {name: getattr(self.method, name)[here].clone() for name in names}
        return State(
            self.weights.row(run),
            {name: tensor[here] for name, tensor in self.buffers.items()},
            replace(self.method, **hyper),
            self.rate[here].clone(),
            {name: tensor[here] for name, tensor in self.own.items()},
        )


def stacked(methods: Sequence[Method], dtype: torch.dtype, device: torch.device) -> Method:
    """One method whose hyper-parameters are tensors `[K]`, one value per run."""
    names = type(methods[0]).varying()
    columns = {name: [getattr(method, name) for method in methods] for name in names}
    tensors = {n: torch.tensor(c, dtype=dtype, device=device) for n, c in columns.items()}
    return replace(methods[0], **tensors)
