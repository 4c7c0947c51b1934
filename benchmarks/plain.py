"""Baseline of the benchmarks: an efficient training loop in plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["PlainDERpp", "plain_mlp"]


def plain_mlp(inputs: int, classes: int) -> nn.Module:
    """Build the paper's multi-layer perceptron from PyTorch layers."""
    return nn.Sequential(
        nn.Linear(inputs, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, classes)
    )


class PlainDERpp:
    """Eager DER++ for one run, with all tensors on one device.

    The memory is a preallocated tensor, the reservoir is vectorised over the batch, and training
    never synchronises with the CPU. `show` converts stored examples to network inputs; `half`
    computes the network in bfloat16.
    """

    def __init__(
        self,
        net: nn.Module,
        example: Tensor,
        classes: int,
        memory: int,
        replay: int,
        show: Callable[[Tensor], Tensor] = lambda x: x,
        half: bool = False,
    ) -> None:
        self.net, self.show, self.half, self.device = net, show, half, example.device
        self.optimiser = torch.optim.SGD(net.parameters(), lr=0.03)
        self.x = example.new_zeros(memory, *example.shape)
        self.y = torch.zeros(memory, dtype=torch.int64, device=self.device)
        self.logits = torch.zeros(memory, classes, device=self.device)
        self.memory, self.replay, self.seen = memory, replay, 0

    def step(self, x: Tensor, y: Tensor) -> None:
        """Take a training step on one batch: x `[B, ...]`, y `[B]`."""
        logits = self._logits(x)
        loss = functional.cross_entropy(logits, y)
        filled = min(self.seen, self.memory)
        if filled:
            first = self._draw(filled)
            distance = functional.mse_loss(self._logits(self.x[first]), self.logits[first])
            second = self._draw(filled)
            again = functional.cross_entropy(self._logits(self.x[second]), self.y[second])
            loss = loss + 0.2 * distance + 1.0 * again
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self._remember(x, y, logits.detach())

    def _logits(self, x: Tensor) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            logits: Tensor = self.net(self.show(x))
        return logits.float()

    def _draw(self, filled: int) -> Tensor:
        return torch.randperm(filled, device=self.device)[: self.replay]

    def _remember(self, x: Tensor, y: Tensor, logits: Tensor) -> None:
        number = torch.arange(self.seen, self.seen + len(y), device=self.device)
        drawn = (torch.rand(len(y), device=self.device) * (number + 1)).long()
        slot = torch.where(number < self.memory, number, drawn)
        kept = slot < self.memory
        self.x[slot[kept]] = x[kept]
        self.y[slot[kept]] = y[kept]
        self.logits[slot[kept]] = logits[kept]
        self.seen += len(y)
