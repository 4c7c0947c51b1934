"""Networks that a method keeps as they were, among its own tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from recollect.core.weights import Weights

__all__ = ["keep_network", "kept_network", "kept_weights", "room_for_network", "room_for_weights"]

Tensors = Mapping[str, Tensor]


def room_for_weights(name: str, weights: Tensors) -> dict[str, Tensor]:
    """Zeros in the shape of the weights, to be kept under a name.

    >>> list(room_for_weights("fisher", {"head.bias": torch.ones(1, 3)}))
    ['fisher.weights.head.bias']
    """
    return {f"{name}.weights.{n}": torch.zeros_like(tensor) for n, tensor in weights.items()}


def room_for_network(name: str, weights: Tensors, buffers: Tensors) -> dict[str, Tensor]:
    """Zeros in the shape of the weights and of what the layers count, to be kept under a name."""
    counted = {f"{name}.buffers.{n}": torch.zeros_like(tensor) for n, tensor in buffers.items()}
    return {**room_for_weights(name, weights), **counted}


def kept_weights(own: Tensors, name: str) -> Weights:
    """The weights that are kept under a name."""
    return Weights(_below(own, f"{name}.weights."))


def kept_network(own: Tensors, name: str) -> tuple[Weights, dict[str, Tensor]]:
    """The weights and buffers that are kept under a name."""
    return kept_weights(own, name), _below(own, f"{name}.buffers.")


def keep_network(own: Tensors, name: str, weights: Weights, buffers: Tensors) -> None:
    """Keep the networks as they are now, in place."""
    for part, tensors in (("weights", weights.named()), ("buffers", buffers)):
        for n, tensor in tensors.items():
            own[f"{name}.{part}.{n}"].copy_(tensor)


def _below(own: Tensors, prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in own.items() if n.startswith(prefix)}
