"""Predictions of a fleet, with its own tensors or a copy of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from recollect.core.images import Images, as_input
from recollect.core.model import Model
from recollect.core.network import Network
from recollect.core.transforms import Transforms
from recollect.core.weights import State, Weights
from recollect.memory import Clock, Memory
from recollect.methods import Method, Query
from recollect.train.execution import fast_arithmetic


@final
@dataclass(frozen=True)
class Reader:
    """Computes logits and predictions of a fleet in evaluation mode.

    For networks that are random even in evaluation mode (`network.noisy`), torch's generator is
    seeded.
    """

    method: Method
    model: Model
    state: State
    memory: Memory
    images: Images | Transforms | None
    classes: int

    def logits(self, x: Tensor) -> Tensor:
        """Compute logits `[K, n, C]` of examples `[K, n, ...]`, or `[1, n, ...]` for all runs."""
        return self._evaluated(self.model.logits, x)

    def predict(self, x: Tensor, clock: Clock, task: int = 0) -> Tensor:
        """Compute the method's scores `[K, n, C]`; the largest is the prediction."""

        def scores(inputs: Tensor) -> Tensor:
            return self.method.predict(
                Query(inputs, task, self.classes, self.model, self.state, self.memory, clock,
                      self.inputs)
            )  # fmt: skip

        if not self.method.needs.task_id:
            return self._evaluated(scores, x)
        self.model.network.begin(task)
        try:
            return self._evaluated(scores, x)
        finally:
            self.model.network.begin(min(clock.task, clock.tasks - 1))

    def inputs(self, x: Tensor) -> Tensor:
        """Convert stored examples to network inputs, without augmentation."""
        dtype = self.model.network.dtype
        return as_input(x, dtype) if self.images is None else self.images.plain(x, dtype)

    def over(self, network: Network, tensors: Mapping[str, Tensor], memory: Memory) -> Reader:
        """A reader with another network, memory and tensors, named as in a fleet."""
        parts: dict[str, dict[str, Tensor]] = {"weights": {}, "buffers": {}, "state": {}}
        for name, tensor in tensors.items():
            part, _, rest = name.partition(".")
            parts.setdefault(part, {})[rest] = tensor
        network.hold(Weights(parts["weights"]), parts["buffers"])
        model = Model(
            network, network.weights, network.buffers, self.model.rate,
            criterion=self.model.criterion,
        )  # fmt: skip
        state = State(parts["state"])
        return Reader(self.method, model, state, memory, self.images, self.classes)

    @torch.no_grad()
    def _evaluated(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        network = self.model.network
        inputs = self.inputs(x).expand(self.model.runs, *x.shape[1:])
        seeded = network.seeded(0) if network.noisy else nullcontext()
        with fast_arithmetic(network.device), seeded, network.mode(training=False):
            return function(inputs)
