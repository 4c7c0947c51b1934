"""The Fisher information of weights: how much a network's own answers change with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from recollect.core.losses import CROSS_ENTROPY, Criterion
from recollect.core.network import Network
from recollect.core.per_example import PerExample
from recollect.core.weights import Weights

__all__ = ["fisher_information"]


def fisher_information(
    network: Network,
    weights: Weights,
    buffers: Mapping[str, Tensor],
    x: Tensor,
    classes: Tensor | None = None,
    draws: Tensor | None = None,
    criterion: Criterion = CROSS_ENTROPY,
) -> Weights:
    """The diagonal of the Fisher information, summed over the examples x `[K, n, ...]`.

    That is, over examples and classes c, the sum of p(c|x) times the square of the gradient of
    log p(c|x), where p are the network's own probabilities in evaluation mode, among some
    `classes` `[K, C]` if these are given. With `draws` `[K, n, A]`, uniform in [0, 1), A answers
    of every example are drawn from p, and their mean estimates the sum over classes.

    All answers share one forward pass. What is not trained has zeros.
    """
    asked = _Asked(x, classes, draws, criterion)
    with network.mode(training=False):
        if network.all_dense:
            total = _of_dense_layers(network, weights, buffers, asked)
        else:
            runs = [
                _of_a_run(network, weights.row(k), {n: b[k] for n, b in buffers.items()}, asked[k])
                for k in range(len(x))
            ]
            total = {name: torch.stack([run[name] for run in runs]) for name in runs[0]}
    zeros = weights.map(torch.zeros_like).named()
    return Weights({name: total.get(name, zero) for name, zero in zeros.items()})


@dataclass(frozen=True)
class _Asked:
    """Examples `[K, n, ...]`, and which answers of the network count."""

    x: Tensor
    classes: Tensor | None
    draws: Tensor | None
    criterion: Criterion

    def __getitem__(self, run: int) -> _Asked:
        """What one run is asked, with a run axis of length 1."""
        classes, draws = (t if t is None else t[run : run + 1] for t in (self.classes, self.draws))
        return _Asked(self.x[run : run + 1], classes, draws, self.criterion)

    def split(self, size: int) -> Iterator[_Asked]:
        """The same in parts of at most so many examples."""
        for first in range(0, self.x.shape[1], size):
            some = slice(first, first + size)
            draws = None if self.draws is None else self.draws[:, some]
            yield _Asked(self.x[:, some], self.classes, draws, self.criterion)

    def errors(self, logits: Tensor) -> Iterator[Tensor]:
        return self.criterion.expected_errors(logits.detach(), self.classes, self.draws)


def _of_dense_layers(
    network: Network, weights: Weights, buffers: Mapping[str, Tensor], asked: _Asked
) -> dict[str, Tensor]:
    """The sum of squares for all runs at once.

    The gradient of an example is an outer product, and so is its square: squared errors are
    summed over answers first, and one product of matrices sums over examples.
    """
    logits = network(network.watch(weights), asked.x, buffers=buffers)
    inputs: dict[str, list[Tensor]] = {}
    squares: dict[tuple[str, int, int], Tensor] = {}
    for error in asked.errors(logits):
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
    network: Network, weights: Weights, buffers: Mapping[str, Tensor], asked: _Asked
) -> dict[str, Tensor]:
    """The sum of squares of one run."""
    examples = PerExample(network, weights, buffers)
    total = {name: torch.zeros_like(tensor) for name, tensor in examples.trained.items()}
    for some in asked.split(examples.at_once(asked.x[0])):
        passed = examples.through(some.x[0])
        for error in some.errors(passed.logits[None]):
            for name, gradients in passed.gradients(error[0]):
                total[name] += gradients.square().sum(0)
    return total
