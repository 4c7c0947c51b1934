"""The multi-layer perceptron of the paper's MNIST experiments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

__all__ = ["MLP"]


class MLP(nn.Module):
    """Fully connected layers with ReLU between them; Xavier-uniform weights, zero biases.

    >>> MLP(784, 10)(torch.zeros(5, 28, 28)).shape
    torch.Size([5, 10])
    """

    broadcasts_runs = True

    def __init__(self, inputs: int, classes: int, hidden: Sequence[int] = (100, 100)) -> None:
        super().__init__()
        sizes = [inputs, *hidden, classes]
        self.layers = nn.ModuleList(Dense(a, b) for a, b in pairwise(sizes))

    def forward(self, x: Tensor) -> Tensor:
        """Logits `[..., B, C]` of inputs `[..., B, *shape]`, with or without a run axis."""
        first, *rest = self.layers
        hidden = first(x.flatten(first.weight.dim() - 1))
        for layer in rest:
            hidden = layer(hidden.relu())
        result: Tensor = hidden
        return result


class Dense(nn.Module):
    """A linear layer whose weight is kept `[in, out]`.

    In this layout the gradient of the product comes out contiguous, as the weight is; with
    `nn.Linear` it comes out transposed, and the update of a small network costs twice as much.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(inputs, outputs)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """One product for one run, one batched product for a fleet."""
        if self.weight.dim() == 3:
            return torch.baddbmm(self.bias.unsqueeze(1), x, self.weight)
        return torch.addmm(self.bias, x, self.weight)
