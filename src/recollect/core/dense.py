"""A linear layer for fleets whose gradient is stored as a product of two thin matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Product(NamedTuple):
    """The low-rank gradient of a linear layer's weight, stored as two factors.

    A batch of n examples has a gradient of rank at most n: `inputs` `[K, n, in]` and `errors`
    `[K, n, out]` represent the matrix `[K, in, out]` in far less memory.
    """

    inputs: Tensor
    errors: Tensor

    @property
    def numel(self) -> int:
        """The number of elements of the gradients of all runs."""
        return len(self.inputs) * self.inputs.shape[2] * self.errors.shape[2]

    def dense(self) -> Tensor:
        """The gradient as a matrix, `[K, in, out]`."""
        return torch.bmm(self.inputs.mT, self.errors)

    def dot(self, other: Product) -> Tensor:
        """The inner product of two gradients, `[K]`: <A'B, C'D> = sum(AC' * BD')."""
        rows, columns = self.inputs.shape[1], other.inputs.shape[1]
        if rows * columns > self.inputs.shape[2] * self.errors.shape[2]:
            return (self.dense() * other.dense()).sum((1, 2))
        inputs = torch.bmm(self.inputs, other.inputs.mT)
        errors = torch.bmm(self.errors, other.errors.mT)
        return (inputs * errors).sum((1, 2))

    def add_to(self, weight: Tensor, scale: Tensor) -> None:
        """Add `scale[k]` times the gradient of run k to its weight, in place."""
        weight.baddbmm_(self.inputs.mT, self.errors * scale.view(-1, 1, 1))


def dense(part: Tensor | Product) -> Tensor:
    """Convert a gradient to a tensor if it is a `Product`."""
    return part.dense() if isinstance(part, Product) else part


def joined(batches: Sequence[Tensor]) -> Tensor:
    """Concatenate batches `[K, n, ...]` along the examples."""
    return batches[0] if len(batches) == 1 else torch.cat(list(batches), 1)


class Dense(nn.Module):
    """A linear layer with weight `[in, out]`, or `[K, in, out]` for a fleet of K runs.

    In a fleet it records its inputs and outputs on a `tape`: autograd then only computes the
    errors at the outputs, and the weight's gradient stays a `Product`.

    >>> Dense(4, 3)(torch.zeros(5, 4)).shape
    torch.Size([5, 3])
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(inputs, outputs)))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.tape: list[tuple[Tensor, Tensor]] = []

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer to `[n, in]`, or to `[K, n, in]` in a fleet."""
        if self.weight.dim() == 2:
            return torch.addmm(self.bias, x, self.weight)
        output = torch.baddbmm(self.bias.unsqueeze(1), x, self.weight)
        if torch.is_grad_enabled():
            output.requires_grad_()
            self.tape.append((x.detach(), output))
        return output
