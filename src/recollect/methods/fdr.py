"""FDR: Function Distance Regularisation (Benjamin et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.losses import cross_entropy
from recollect.core.random import Purpose, bits, permute
from recollect.memory import Rule, TaskShares
from recollect.methods.boundary import Boundary
from recollect.methods.method import Method
from recollect.methods.step import Step

__all__ = ["FDR"]


@dataclass(frozen=True)
class FDR(Method):
    """Stays close, as a function, to what the network was at the end of every task.

    When a task ends, some of its examples are kept with the network's outputs. Later steps add
    `alpha` times the distance between the probabilities of now and of then.

    `recollect reproduce seq-mnist --methods fdr` makes its rows of the paper's table.

    >>> FDR(alpha=0.3).rule(50)
    TaskShares(capacity=50)
    """

    alpha: float | Tensor = 0.5

    name: ClassVar[str] = "fdr"
    title: ClassVar[str] = "FDR"
    remembers: ClassVar[tuple[str, ...]] = ("x", "logits")
    draws: ClassVar[int] = 1
    needs_boundaries: ClassVar[bool] = True
    revisits: ClassVar[bool] = True

    def loss(self, step: Step) -> Tensor:
        """Cross-entropy on the stream plus alpha times the mean distance of probabilities."""
        past = step.draw()
        now, then = step.net(step.x, past.x)
        difference = then.softmax(2) - past.logits.softmax(2)
        count = max(past.x.shape[1], 1)
        distance = (difference.square().sum(2) + TINY).sqrt().sum(1) / count
        return cross_entropy(now, step.y) + self.alpha * distance

    def rule(self, capacity: int) -> Rule:
        """An equal share for every task so far."""
        return TaskShares(capacity)

    def end_task(self, boundary: Boundary) -> None:
        """Make room among the earlier tasks, and keep examples of this one with their logits."""
        memory, clock = boundary.memory, boundary.clock
        rule = TaskShares(memory.capacity)
        before, after = rule.kept(clock.counts), rule.kept((*clock.counts, boundary.count))
        starts = [0, *accumulate(before)]
        stay = [torch.arange(start, start + n) for start, n in zip(starts, after, strict=False)]
        old = torch.cat([*stay[: len(before)], torch.zeros(0, dtype=torch.int64)])
        kept = memory.read(memory.rows(boundary.for_all(old)))
        key = bits(boundary.seeds, Purpose.KEEP, clock.task)
        chosen = torch.arange(after[-1], device=boundary.seeds.device)
        x, _ = boundary.examples(permute(key[:, None], chosen, boundary.count))
        new = {"x": x, "logits": boundary.logits(x)}
        memory.write(
            memory.rows(boundary.for_all(torch.arange(sum(after)))),
            {name: torch.cat([kept[name], new[name]], 1) for name in new},
        )


# The distance has no gradient where it is zero.
TINY = 1e-12
