"""Per-example gradients in evaluation mode, and their inner products."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor
from torch.func import grad, vmap

from recollect.core.layers import Layers

if TYPE_CHECKING:
    from recollect.core.model import Model

__all__ = ["PerExample", "gradient_dots"]

Gradients = Iterable[tuple[str, Tensor]]

NUMBERS_AT_ONCE = 1 << 28
EXAMPLES_AT_ONCE = 16


def gradient_dots(model: Model, x: Tensor, y: Tensor) -> Tensor:
    """Compute the inner products of per-example gradients, `[K, n, n]`.

    In a `Dense` layer the gradient of an example is the outer product of its input and its error,
    so the inner product of two gradients is the product of two inner products, and no gradient
    matrix is needed. Other networks are differentiated example by example, and their batch
    normalisation uses running statistics.
    """
    network, criterion = model.network, model.criterion
    if network.all_dense:
        leaves = network.watch(model.weights)
        products = network.products(criterion.each(network(leaves, x), y).sum(1))
        return torch.stack(
            [(p.inputs @ p.inputs.mT + 1) * (p.errors @ p.errors.mT) for _, p in products]
        ).sum(0)
    dots = []
    with network.mode(training=False):
        for run in range(len(x)):
            logits, gradients = PerExample(model, run).through(x[run])
            found = gradients(criterion.error(logits.detach(), y[run]))
            rows = (each.flatten(1) for _, each in found)
            dots.append(torch.stack([row @ row.mT for row in rows]).sum(0))
    return torch.stack(dots)


@final
class PerExample:
    """Per-example gradients of the network of one run.

    A network of layers that `Layers` supports needs one pass of a batch; other networks are
    differentiated under `vmap`.
    """

    def __init__(self, model: Model, run: int) -> None:
        weights, trained = model.weights.row(run).only(), model.network.trained
        self._network = model.network
        self.trained = {n: t.detach() for n, t in weights.items() if n in trained}
        self._fixed = {n: t[run] for n, t in model.buffers.items()}
        self._fixed |= {n: t for n, t in weights.items() if n not in trained}
        self._single: Layers | None = None

    def through(self, x: Tensor) -> tuple[Tensor, Callable[[Tensor], Gradients]]:
        """Compute the logits of examples `[n, ...]`, and return them with their backward function.

        The function maps an error at the logits, `[n, C]`, to each parameter's per-example
        gradients `[n, ...]`.
        """
        layers, logits = self._watched(x)
        if self._of_one(x).known and layers.known:
            return logits, partial(layers.gradients, logits)
        each = vmap(lambda one: self._logits(self.trained, one[None])[0])(x)
        return each, partial(self._one_by_one, x)

    def at_once(self, x: Tensor) -> int:
        """The number of examples like these per pass for which the gradients fit in memory."""
        single = self._of_one(x)
        if not single.known:
            return EXAMPLES_AT_ONCE
        largest = max((tensor.numel() for tensor in self.trained.values()), default=1)
        return max(1, NUMBERS_AT_ONCE // (single.numbers + largest))

    def _one_by_one(self, x: Tensor, error: Tensor) -> Gradients:
        def given(parameters: dict[str, Tensor], example: Tensor, error: Tensor) -> Tensor:
            return (self._logits(parameters, example[None]) * error).sum()

        each: dict[str, Tensor] = vmap(grad(given), (None, 0, 0))(self.trained, x, error)
        return each.items()

    def _of_one(self, x: Tensor) -> Layers:
        # A batch of one example distinguishes its first axis from others of the same length.
        if self._single is None:
            self._single = self._watched(x[:1])[0]
        return self._single

    def _watched(self, x: Tensor) -> tuple[Layers, Tensor]:
        leaves = {name: tensor.detach().requires_grad_() for name, tensor in self.trained.items()}
        with torch.enable_grad(), Layers(leaves, len(x)) as layers:
            return layers, self._logits(leaves, x)

    def _logits(self, parameters: Mapping[str, Tensor], x: Tensor) -> Tensor:
        return self._network.one(parameters, self._fixed, x.clone())
