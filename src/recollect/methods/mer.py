"""MER: Meta-Experience Replay (Riemer et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.losses import cross_entropy
from recollect.methods.method import Method
from recollect.methods.step import Step

__all__ = ["MER"]


@dataclass(frozen=True)
class MER(Method):
    """Learns one example at a time, remembered ones and then the new one, and looks back.

    What arrives is taken with `nb` batches of remembered examples; in each of them every example
    is a step of its own, and the new ones come last. After a batch the weights keep `beta` of the
    way that it took them, and after all batches `gamma` of the whole way (Reptile). Examples
    should arrive one by one: the batch size is 1. With `inner` above 1, a step takes so many
    examples at once.

    `recollect reproduce seq-mnist --methods mer` makes its rows of the paper's table.

    >>> MER(nb=3).draws_per_step()
    3
    """

    beta: float | Tensor = 1.0
    gamma: float | Tensor = 1.0
    nb: int = 1
    inner: int = 1

    name: ClassVar[str] = "mer"
    title: ClassVar[str] = "MER"
    remembers: ClassVar[tuple[str, ...]] = ("x", "y")
    shaping: ClassVar[tuple[str, ...]] = ("nb", "inner")
    batch: ClassVar[int | None] = 1

    def draws_per_step(self) -> int:
        """One for every inner batch."""
        return self.nb

    def learn(self, step: Step) -> Tensor:
        """Every example of every inner batch as a step; the loss of the last step, `[K]`."""
        beta, gamma = (torch.as_tensor(share) for share in (self.beta, self.gamma))
        start = step.weights.snapshot()
        for _ in range(self.nb):
            past = step.draw()
            before = step.weights.snapshot()
            x, y = torch.cat([past.x, step.x], 1), torch.cat([past.y, step.y], 1)
            pieces = (torch.split(rows, self.inner, 1) for rows in (x, y))
            for some, labels in zip(*pieces, strict=True):
                (logits,) = step.net(some)
                loss = cross_entropy(logits, labels)
                step.descend(step.gradient(loss))
            step.weights.return_to(before, beta)
        step.weights.return_to(start, gamma)
        return loss.detach()
