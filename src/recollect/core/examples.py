"""Gradients of single examples: their inner products."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from recollect.core.losses import CROSS_ENTROPY, Criterion
from recollect.core.network import Network
from recollect.core.per_example import PerExample
from recollect.core.weights import Weights

__all__ = ["gradient_dots"]


def gradient_dots(
    network: Network,
    weights: Weights,
    buffers: Mapping[str, Tensor],
    x: Tensor,
    y: Tensor,
    criterion: Criterion = CROSS_ENTROPY,
) -> Tensor:
    """The inner products of the gradients of single examples, `[K, n, n]`.

    In a dense layer the gradient of one example is an outer product of its input and its error,
    so the inner product of two is that of their inputs times that of their errors, and no gradient
    is written out. Other networks are differentiated example by example; layers that normalise by
    batch use their running statistics then.
    """
    if network.all_dense:
        leaves = network.watch(weights)
        products = network.products(criterion.each(network(leaves, x), y).sum(1))
        return torch.stack(
            [(p.inputs @ p.inputs.mT + 1) * (p.errors @ p.errors.mT) for _, p in products]
        ).sum(0)
    with network.mode(training=False):
        return torch.stack(
            [
                _of_a_run(
                    PerExample(network, weights.row(run), {n: b[run] for n, b in buffers.items()}),
                    x[run],
                    y[run],
                    criterion,
                )
                for run in range(len(x))
            ]
        )


def _of_a_run(examples: PerExample, x: Tensor, y: Tensor, criterion: Criterion) -> Tensor:
    passed = examples.through(x)
    error = criterion.error(passed.logits.detach(), y)
    rows = (each.flatten(1) for _, each in passed.gradients(error))
    return torch.stack([row @ row.mT for row in rows]).sum(0)
