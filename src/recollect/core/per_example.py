"""Per-example gradients in evaluation mode: their inner products, and the Fisher information."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor
from torch.func import grad, vmap

from recollect.core.layers import Layers
from recollect.core.weights import Weights

if TYPE_CHECKING:
    from recollect.core.model import Model

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


def fisher_information(
    model: Model, x: Tensor, classes: Tensor | None = None, draws: Tensor | None = None
) -> Weights:
    """Compute the diagonal Fisher information, summed over the examples x `[K, n, ...]`.

    This is the sum over examples and classes c of p(c|x) times the squared gradient of
    log p(c|x), where p is predicted by the network in evaluation mode, restricted to the mask
    `classes` `[K, C]` if it is given. With `draws` `[K, n, A]`, uniform in [0, 1), A labels per
    example are sampled from p instead, and their mean estimates the sum over classes.

    All classes share one forward pass. Frozen parameters have zeros.
    """
    with model.network.mode(training=False):
        if model.network.all_dense:
            total = _of_dense_layers(model, x, classes, draws)
        else:
            runs = []
            for k, own in enumerate(x):
                asked = (t if t is None else t[k : k + 1] for t in (classes, draws))
                runs.append(_of_a_run(model, k, own, *asked))
            total = {name: torch.stack([run[name] for run in runs]) for name in runs[0]}
    zeros = model.weights.map(torch.zeros_like).named()
    return Weights({name: total.get(name, zero) for name, zero in zeros.items()})


def _of_dense_layers(
    model: Model, x: Tensor, classes: Tensor | None, draws: Tensor | None
) -> dict[str, Tensor]:
    """Compute the sum of squared gradients for all runs at once.

    The gradient of an example is an outer product, and so is its square: squared errors are
    summed over classes first, then one matrix product sums over examples.
    """
    network = model.network
    logits = network(network.watch(model.weights), x, buffers=model.buffers)
    inputs: dict[str, list[Tensor]] = {}
    squares: dict[tuple[str, int, int], Tensor] = {}
    for error in model.criterion.expected_errors(logits.detach(), classes, draws):
        inputs, errors = defaultdict(list), defaultdict(list)
        for name, call in network.products((error * logits).sum((1, 2)), keep=True):
            inputs[name].append(call.inputs)
            errors[name].append(call.errors)
        for name, calls in errors.items():  # a layer may be called more than once
            for (a, one), (b, other) in product(enumerate(calls), repeat=2):
                squares[name, a, b] = squares.get((name, a, b), 0) + one * other
    network.forget()
    total: dict[str, Tensor] = {}
    for (name, a, b), square in squares.items():
        rows = inputs[name][a] * inputs[name][b]
        for part, found in (("weight", rows.mT @ square), ("bias", square.sum(1))):
            total[f"{name}.{part}"] = total.get(f"{name}.{part}", 0) + found
    return {name: tensor for name, tensor in total.items() if name in network.trained}


def _of_a_run(
    model: Model, run: int, x: Tensor, classes: Tensor | None, draws: Tensor | None
) -> dict[str, Tensor]:
    examples = PerExample(model, run)
    total = {name: torch.zeros_like(tensor) for name, tensor in examples.trained.items()}
    size = examples.at_once(x)
    for first in range(0, len(x), size):
        some = slice(first, first + size)
        logits, gradients = examples.through(x[some])
        drawn = None if draws is None else draws[:, some]
        for error in model.criterion.expected_errors(logits.detach()[None], classes, drawn):
            for name, each in gradients(error[0]):
                total[name] += each.square().sum(0)
    return total


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
