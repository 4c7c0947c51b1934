"""MER: Meta-Experience Replay (Riemer et al., 2019)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.methods.base import Method, Needs, Replay, Setup, Spec, Step, hyper


@dataclass(frozen=True)
class MER(Method):
    """Trains on stored and new examples one at a time, with Reptile meta-updates.

    Incoming examples are combined with `nb` batches of stored examples; in each of these batches
    every example is a step of its own, and the incoming ones come last. After a batch, the change
    of the weights is multiplied by `beta`, and after all batches, the total change by `gamma`
    (Reptile). Examples should arrive one by one: the batch size is 1. With `inner` above 1, a step
    takes that many examples.

    >>> MER.needs.batch_size
    1
    """

    beta: float | Tensor = hyper(1.0, "Reptile rate within a batch: share of its change to keep")
    gamma: float | Tensor = hyper(1.0, "Reptile rate across batches: share of the change to keep")
    nb: int = hyper(1, "number of inner batches")
    inner: int = hyper(1, "examples per inner step")

    name: ClassVar[str] = "mer"
    title: ClassVar[str] = "MER"
    needs: ClassVar[Needs] = Needs(batch_size=1)
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def setup(self, spec: Spec) -> Setup:
        return Setup(replay=Replay(self.replay.fields, draws=self.nb))

    def update(self, step: Step) -> Tensor:
        """Take a step for every example of every inner batch; returns the last loss, `[K]`."""
        beta, gamma = (torch.as_tensor(share) for share in (self.beta, self.gamma))
        start = step.model.weights.snapshot()
        for _ in range(self.nb):
            past = step.draw()
            before = step.model.weights.snapshot()
            x, y = torch.cat([past.x, step.x], 1), torch.cat([past.y, step.y], 1)
            pieces = (torch.split(rows, self.inner, 1) for rows in (x, y))
            for some, labels in zip(*pieces, strict=True):
                (logits,) = step.net(some)
                loss = step.criterion(logits, labels)
                step.model.descend(step.model.gradient(loss))
            step.model.weights.lerp_from(before, beta)
        step.model.weights.lerp_from(start, gamma)
        return loss.detach()
