"""The multi-layer perceptron of the paper's MNIST experiments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from recollect.core.dense import Dense


class MLP(nn.Module):
    """Fully connected layers with ReLU between them; Xavier-uniform weights, zero biases.

    >>> import torch
    >>> MLP(784, 10)(torch.zeros(5, 28, 28)).shape
    torch.Size([5, 10])
    """

    broadcasts_runs = True
    same_in_both_modes = True

    def __init__(self, inputs: int, classes: int, hidden: Sequence[int] = (100, 100)) -> None:
        super().__init__()
        sizes = [inputs, *hidden]
        self.hidden = nn.ModuleList(Dense(a, b) for a, b in pairwise(sizes))
        self.head = Dense(sizes[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Compute logits `[..., B, C]` of inputs `[..., B, *shape]`, with or without a run axis."""
        first = self.hidden[0] if len(self.hidden) else self.head
        hidden = x.flatten(next(first.parameters()).dim() - 1)
        for layer in self.hidden:
            hidden = layer(hidden).relu()
        logits: Tensor = self.head(hidden)
        return logits
