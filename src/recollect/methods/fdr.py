"""FDR: Function Distance Regularisation (Benjamin et al., 2019)."""

from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, permute
from recollect.memory import TaskShares
from recollect.methods.base import Classifier, Needs, Replay, Setup, Spec, Step, Task, hyper


@dataclass(frozen=True)
class FDR(Classifier):
    """Stays close, as a function, to what the network was at the end of every task.

    When a task ends, some of its examples are stored with the network's outputs. Later steps add
    `alpha` times the distance between the probabilities of now and of then.

    With `two_steps=1` there is first a step on the stream, and then one on the distance. With
    `training_mode=1`, logits are stored from a forward pass in training mode on augmented images,
    which also moves the running statistics of normalisation layers.

    >>> FDR(alpha=0.3)
    FDR(alpha=0.3, two_steps=0, training_mode=0)
    """

    alpha: float | Tensor = hyper(0.5, "weight of the distance to the stored probabilities")
    two_steps: int = hyper(0, "1: a step on the stream, then one on the distance")
    training_mode: int = hyper(0, "1: logits are stored from a pass in training mode")

    name: ClassVar[str] = "fdr"
    title: ClassVar[str] = "FDR"
    needs: ClassVar[Needs] = Needs(boundaries=True, revisits=True)
    replay: ClassVar[Replay] = Replay(("x", "logits"))

    def setup(self, spec: Spec) -> Setup:
        """An equal share of the memory for every task so far."""
        return Setup(policy=TaskShares(spec.capacity))

    def update(self, step: Step) -> Tensor:
        """One step on the sum of both losses, or one on each; their sum `[K]`."""
        past = step.draw()
        if not self.two_steps or not past.x.shape[1]:
            now, then = step.net(step.x, past.x)
            loss = step.criterion(now, step.y) + self._distance(then, past.logits)
            step.model.descend(step.model.gradient(loss))
            return loss.detach()
        (now,) = step.net(step.x)
        arrived = step.criterion(now, step.y)
        step.model.descend(step.model.gradient(arrived))
        (then,) = step.net(past.x)
        moved = self._distance(then, past.logits)
        step.model.descend(step.model.gradient(moved))
        return arrived.detach() + moved.detach()

    def _distance(self, logits: Tensor, stored: Tensor) -> Tensor:
        """Alpha times the mean distance of probabilities, `[K]`; zero if there are none."""
        difference = logits.softmax(2) - stored.softmax(2)
        count = max(logits.shape[1], 1)
        return self.alpha * (difference.square().sum(2) + TINY).sqrt().sum(1) / count

    def end_task(self, task: Task) -> None:
        """Make room among the earlier tasks, and store examples of this one with their logits."""
        memory, clock = task.memory, task.clock
        policy = TaskShares(memory.capacity)
        before, after = policy.stored(clock.counts), policy.stored((*clock.counts, task.count))
        starts = [0, *accumulate(before)]
        stay = [torch.arange(start, start + n) for start, n in zip(starts, after, strict=False)]
        old = torch.cat([*stay[: len(before)], torch.zeros(0, dtype=torch.int64)])
        kept = memory.read(memory.rows(task.for_all(old)))
        key = bits(task.seeds, Purpose.KEEP, clock.task)
        chosen = torch.arange(self._read(task, after[-1]), device=task.seeds.device)
        x, _ = task.examples(permute(key[:, None], chosen, task.count))
        logits = task.training_logits(x) if self.training_mode else task.logits(x)
        new = {"x": x[:, : after[-1]], "logits": logits[:, : after[-1]]}
        memory.write(
            memory.rows(task.for_all(torch.arange(sum(after)))),
            {name: torch.cat([kept[name], new[name]], 1) for name in new},
        )

    def _read(self, task: Task, share: int) -> int:
        """How many examples go through the networks so that a share of them is stored."""
        if not self.training_mode:
            return share
        # Whole batches, because the last examples are normalised with those beside them; and one
        # more (two after a share of whole ones), as the loop in the code of the paper's authors.
        return min((share // task.batch + 2) * task.batch, task.count)


# The distance has no gradient where it is zero.
TINY = 1e-12
