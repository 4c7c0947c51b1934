"""Gradients of single examples: their inner products."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from recollect.core.losses import cross_entropy
from recollect.core.network import Network
from recollect.core.weights import Weights

__all__ = ["gradient_dots"]


def gradient_dots(
    network: Network, weights: Weights, buffers: Mapping[str, Tensor], x: Tensor, y: Tensor
) -> Tensor:
    """The inner products of the cross-entropy gradients of examples, `[K, n, n]`.

    In a dense layer the gradient of one example is an outer product of its input and its error,
    so the inner product of two is that of their inputs times that of their errors, and no gradient
    is written out. Other networks are differentiated example by example; layers that normalise by
    batch use their running statistics then.
    """
    if network.all_dense:
        leaves = network.watch(weights)
        surprise = cross_entropy(network(leaves, x), y) * x.shape[1]
        products = network.products(surprise)
        return torch.stack(
            [(p.inputs @ p.inputs.mT + 1) * (p.errors @ p.errors.mT) for _, p in products]
        ).sum(0)
    with network.testing():
        return torch.stack(
            [
                _by_example(network, weights.row(run), buffers, run, x[run], y[run])
                for run in range(len(x))
            ]
        )


def _by_example(
    network: Network,
    weights: Weights,
    buffers: Mapping[str, Tensor],
    run: int,
    x: Tensor,
    y: Tensor,
) -> Tensor:
    """The inner products of one run, `[n, n]`."""
    each = _each(network, weights, buffers, run, x, y)
    rows = torch.cat([tensor.flatten(1) for tensor in each.values()], 1)
    return rows @ rows.mT


def _each(
    network: Network,
    weights: Weights,
    buffers: Mapping[str, Tensor],
    run: int,
    x: Tensor,
    y: Tensor,
) -> dict[str, Tensor]:
    """The gradient of every example of one run, `[n, ...]` for each weight."""
    own = {name: tensor[run] for name, tensor in buffers.items()}
    trained = {n: t for n, t in weights.only().items() if n in network.trained}
    fixed = {n: t for n, t in weights.only().items() if n not in network.trained}

    def surprise(parameters: dict[str, Tensor], example: Tensor, label: Tensor) -> Tensor:
        known = {**parameters, **fixed, **own}
        logits: Tensor = functional_call(network.module, known, (example[None],))
        return cross_entropy(logits[None], label.view(1, 1)).squeeze(0)

    each: dict[str, Tensor] = vmap(grad(surprise), (None, 0, 0))(trained, x, y)
    return each
