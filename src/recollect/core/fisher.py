"""The diagonal Fisher information of a network's weights."""

from __future__ import annotations

from collections import defaultdict
from itertools import product
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from recollect.core.per_example import PerExample
from recollect.core.weights import Weights

if TYPE_CHECKING:
    from recollect.core.model import Model

__all__ = ["fisher_information"]


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
