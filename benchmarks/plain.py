"""What recollect is measured against: the loop that a competent person writes in plain PyTorch."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["PlainDERpp"]


class PlainDERpp:
    """DER++ for one run: eager, one thread, every tensor in memory, nothing wasteful.

    Images are converted to floats once, the memory is a preallocated tensor, the reservoir is
    vectorised over the batch, and no value is read back during training.
    """

    def __init__(self, inputs: int, classes: int, memory: int, replay: int, seed: int) -> None:
        torch.manual_seed(seed)
        self.net = nn.Sequential(
            nn.Linear(inputs, 100), nn.ReLU(),
            nn.Linear(100, 100), nn.ReLU(),
            nn.Linear(100, classes),
        )  # fmt: skip
        self.optimiser = torch.optim.SGD(self.net.parameters(), lr=0.03)
        self.x = torch.zeros(memory, inputs)
        self.y = torch.zeros(memory, dtype=torch.int64)
        self.logits = torch.zeros(memory, classes)
        self.memory, self.replay, self.seen = memory, replay, 0

    def step(self, x: Tensor, y: Tensor) -> None:
        """One step on one batch: x `[B, inputs]` floats, y `[B]`."""
        logits = self.net(x)
        loss = functional.cross_entropy(logits, y)
        filled = min(self.seen, self.memory)
        if filled:
            first = torch.randperm(filled)[: self.replay]
            distance = functional.mse_loss(self.net(self.x[first]), self.logits[first])
            second = torch.randperm(filled)[: self.replay]
            again = functional.cross_entropy(self.net(self.x[second]), self.y[second])
            loss = loss + 0.2 * distance + 1.0 * again
        self.optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self._remember(x, y, logits.detach())

    def _remember(self, x: Tensor, y: Tensor, logits: Tensor) -> None:
        number = torch.arange(self.seen, self.seen + len(y))
        slot = torch.where(number < self.memory, number, (torch.rand(len(y)) * (number + 1)).long())
        kept = slot < self.memory
        self.x[slot[kept]] = x[kept]
        self.y[slot[kept]] = y[kept]
        self.logits[slot[kept]] = logits[kept]
        self.seen += len(y)
