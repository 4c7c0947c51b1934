"""MER: Meta-Experience Replay (Riemer et al., 2019)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.methods.base import Method, Needs, Replay, Setup, Spec, Step, hyper


@dataclass(frozen=True)
class MER(Method):
    """Learns one example at a time, stored ones and then the new one, and steps back.

    What arrives is taken with `nb` batches of remembered examples; in each of them every example
    is a step of its own, and the new ones come last. After a batch the weights keep `beta` of the
    way that it took them, and after all batches `gamma` of the whole way (Reptile). Examples
    should arrive one by one: the batch size is 1. With `inner` above 1, a step takes so many
    examples at once.

    >>> MER.needs.batch_size
    1
    """

    beta: float | Tensor = hyper(1.0, "share of the change by an inner batch that stays")
    gamma: float | Tensor = hyper(1.0, "share of the change by a whole step that stays")
    nb: int = hyper(1, "number of inner batches")
    inner: int = hyper(1, "examples of an inner step")

    name: ClassVar[str] = "mer"
    title: ClassVar[str] = "MER"
    needs: ClassVar[Needs] = Needs(batch_size=1)
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def setup(self, spec: Spec) -> Setup:
        return Setup(replay=Replay(self.replay.fields, draws=self.nb))

    def update(self, step: Step) -> Tensor:
        """Every example of every inner batch as a step; the loss of the last step, `[K]`."""
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
