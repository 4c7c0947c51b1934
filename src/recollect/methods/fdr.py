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

    With `two_steps=1` there is first a step on the stream, and then one on the distance. With
    `training_mode=1`, logits are stored from a forward pass in training mode on augmented images,
    which also moves the running statistics of normalisation layers.

    `recollect reproduce seq-mnist --methods fdr` makes its rows of the paper's table.

    >>> FDR(alpha=0.3).rule(50)
    TaskShares(capacity=50)
    """

    alpha: float | Tensor = 0.5
    two_steps: int = 0
    training_mode: int = 0

    name: ClassVar[str] = "fdr"
    title: ClassVar[str] = "FDR"
    remembers: ClassVar[tuple[str, ...]] = ("x", "logits")
    shaping: ClassVar[tuple[str, ...]] = ("two_steps", "training_mode")
    draws: ClassVar[int] = 1
    needs_boundaries: ClassVar[bool] = True
    revisits: ClassVar[bool] = True

    def learn(self, step: Step) -> Tensor:
        """One step on the sum of both losses, or one on each; their sum `[K]`."""
        past = step.draw()
        if not self.two_steps or not past.x.shape[1]:
            now, then = step.net(step.x, past.x)
            loss = cross_entropy(now, step.y) + self._distance(then, past.logits)
            step.descend(step.gradient(loss))
            return loss.detach()
        (now,) = step.net(step.x)
        arrived = cross_entropy(now, step.y)
        step.descend(step.gradient(arrived))
        (then,) = step.net(past.x)
        moved = self._distance(then, past.logits)
        step.descend(step.gradient(moved))
        return arrived.detach() + moved.detach()

    def _distance(self, logits: Tensor, stored: Tensor) -> Tensor:
        """Alpha times the mean distance of probabilities, `[K]`; zero if there are none."""
        difference = logits.softmax(2) - stored.softmax(2)
        count = max(logits.shape[1], 1)
        return self.alpha * (difference.square().sum(2) + TINY).sqrt().sum(1) / count

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
        chosen = torch.arange(self._read(boundary, after[-1]), device=boundary.seeds.device)
        x, _ = boundary.examples(permute(key[:, None], chosen, boundary.count))
        logits = boundary.training_logits(x) if self.training_mode else boundary.logits(x)
        new = {"x": x[:, : after[-1]], "logits": logits[:, : after[-1]]}
        memory.write(
            memory.rows(boundary.for_all(torch.arange(sum(after)))),
            {name: torch.cat([kept[name], new[name]], 1) for name in new},
        )

    def _read(self, boundary: Boundary, share: int) -> int:
        """How many examples go through the networks so that a share of them is stored."""
        if not self.training_mode:
            return share
        # Whole batches, because the last examples are normalised with those beside them; and one
        # more (two after a share of whole ones), as the loop in the code of the paper's authors.
        return min((share // boundary.batch + 2) * boundary.batch, boundary.count)


# The distance has no gradient where it is zero.
TINY = 1e-12
