"""FDR: Function Distance Regularisation (Benjamin et al., 2019)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, permute
from recollect.memory import TaskShares
from recollect.methods.base import Classifier, Needs, Replay, Setup, Spec, Step, Task, hyper


@dataclass(frozen=True)
class FDR(Classifier):
    """Regularises the network's function towards its outputs at the end of every earlier task.

    When a task ends, some of its examples are stored with the network's logits. The loss of later
    steps includes `alpha` times the distance between the current and the stored probabilities.

    With `two_steps=1`, a step on the batch is followed by a step on the distance. With
    `training_mode=1`, logits are computed in training mode on augmented images, which also updates
    the running statistics of normalisation layers.

    >>> FDR(alpha=0.3)
    FDR(alpha=0.3, two_steps=0, training_mode=0)
    """

    alpha: float | Tensor = hyper(0.5, "weight of the distance to the stored probabilities")
    two_steps: int = hyper(0, "1: a step on the batch, then one on the distance")
    training_mode: int = hyper(0, "1: compute the stored logits in training mode")

    name: ClassVar[str] = "fdr"
    title: ClassVar[str] = "FDR"
    needs: ClassVar[Needs] = Needs(boundaries=True, revisits=True)
    replay: ClassVar[Replay] = Replay(("x", "logits"))

    def setup(self, spec: Spec) -> Setup:
        """An equal share of the memory for every finished task."""
        return Setup(policy=TaskShares(spec.capacity))

    def update(self, step: Step) -> Tensor:
        """Take one step on the sum of both losses, or one on each; returns their sum `[K]`."""
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
        """Alpha times the mean distance of probabilities, `[K]`; zero without examples."""
        difference = logits.softmax(2) - stored.softmax(2)
        count = max(logits.shape[1], 1)
        return self.alpha * (difference.square().sum(2) + TINY).sqrt().sum(1) / count

    def end_task(self, task: Task) -> None:
        """Shrink the shares of earlier tasks, and store examples of this one with their logits."""
        memory, clock = task.memory, task.clock
        policy = TaskShares(memory.capacity)
        after = policy.stored((*clock.counts, task.count))
        stay = policy.staying(clock.counts, task.count)
        kept = memory.read(memory.rows(task.for_all(stay)))
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
        """The number of examples to pass through the networks so that `share` can be stored."""
        if not self.training_mode:
            return share
        # Whole batches, because batch normalisation depends on all examples of a batch; and one
        # batch more (two if the share is whole batches), as in the code of the paper's authors.
        return min((share // task.batch + 2) * task.batch, task.count)


# Added under the square root, which has no gradient at zero.
TINY = 1e-12
