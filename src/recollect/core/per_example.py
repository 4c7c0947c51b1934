"""Gradients of single examples, for one run of a fleet, in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from recollect.core.layers import Layers
from recollect.core.network import Network
from recollect.core.weights import Weights

__all__ = ["Pass", "PerExample"]

Gradients = Iterable[tuple[str, Tensor]]

NUMBERS_AT_ONCE = 1 << 28
EXAMPLES_AT_ONCE = 16


@final
class PerExample:
    """Differentiates one run's network example by example; `weights` and `buffers` are that run's.

    Where the network consists of layers that `Layers` knows, one pass of a batch is enough.
    Other networks are differentiated under `vmap`.
    """

    def __init__(self, network: Network, weights: Weights, buffers: Mapping[str, Tensor]) -> None:
        self._module = network.module
        here = weights.only()
        self.trained = {n: t.detach() for n, t in here.items() if n in network.trained}
        self._fixed = {**buffers, **{n: t for n, t in here.items() if n not in self.trained}}
        self._single: Layers | None = None

    def through(self, x: Tensor) -> Pass:
        """A pass of examples `[n, ...]`, which can be differentiated several times."""
        layers, logits = self._watched(x)
        if self._of_one(x).known and layers.known:
            return Pass(self, x, logits, layers)
        return Pass(self, x, vmap(lambda one: self._logits(self.trained, one[None])[0])(x), None)

    def at_once(self, x: Tensor) -> int:
        """How many examples like these a pass should have, so that their gradients fit."""
        single = self._of_one(x)
        if not single.known:
            return EXAMPLES_AT_ONCE
        largest = max((tensor.numel() for tensor in self.trained.values()), default=1)
        return max(1, NUMBERS_AT_ONCE // (single.numbers + largest))

    def one_by_one(self, x: Tensor, error: Tensor) -> Gradients:
        """The gradients under `vmap`, given the error at the logits, `[n, C]`."""

        def given(parameters: dict[str, Tensor], example: Tensor, error: Tensor) -> Tensor:
            return (self._logits(parameters, example[None]) * error).sum()

        each: dict[str, Tensor] = vmap(grad(given), (None, 0, 0))(self.trained, x, error)
        return each.items()

    def _of_one(self, x: Tensor) -> Layers:
        # A single example tells an axis of examples from another that has their number by chance.
        if self._single is None:
            self._single = self._watched(x[:1])[0]
        return self._single

    def _watched(self, x: Tensor) -> tuple[Layers, Tensor]:
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in self.trained.items()}
        with torch.enable_grad(), Layers(leaves, len(x)) as layers:
            return layers, self._logits(leaves, x)

    def _logits(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        known = {**parameters, **self._fixed}
        logits: Tensor = functional_call(self._module, known, (x.clone(),))
        return logits


@final
class Pass:
    """The logits `[n, C]` of a batch, and the gradients of its examples."""

    def __init__(
        self, examples: PerExample, x: Tensor, logits: Tensor, layers: Layers | None
    ) -> None:
        self._examples, self._x, self._layers = examples, x, layers
        self.logits = logits

    def gradients(self, error: Tensor) -> Gradients:
        """The gradient of each parameter for each example, `[n, ...]`, given an error `[n, C]`."""
        if self._layers is not None:
            return self._layers.gradients(self.logits, error)
        return self._examples.one_by_one(self._x, error)
