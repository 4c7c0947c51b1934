"""X-DER: what of it needs stored logits to be rewritten (Boschini et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect import Field, Method, Replay, Setup, Spec, Step, hyper
from recollect.core.losses import squared_distance

__all__ = ["XDER"]


@dataclass(frozen=True)
class XDER(Method):
    """DER++ whose stored logits learn of classes that came after an example was stored.

    An example is stored with its logits and with the classes seen so far. When it is replayed,
    its logits of classes that were seen since are replaced by those of now, scaled so that none
    exceeds `eta` times the logit of its label. The second loss reads another view of the images.
    """

    alpha: float | Tensor = hyper(0.3, "weight of the squared distance to the stored logits")
    beta: float | Tensor = hyper(0.8, "weight of the loss on replayed labels")
    eta: float | Tensor = hyper(0.75, "largest new logit, in parts of the label's logit")

    name: ClassVar[str] = "x-der"
    title: ClassVar[str] = "X-DER"
    replay: ClassVar[Replay] = Replay(("x", "y", "logits"))

    def setup(self, spec: Spec) -> Setup:
        """The classes seen so far, for the run and for every stored example."""
        seen = Field("seen", (spec.classes,), torch.bool)
        classes = (spec.runs, spec.classes)
        return Setup(
            replay=Replay((*self.replay.fields, seen)),
            state=lambda model: {"seen": torch.zeros(classes, dtype=torch.bool)},
        )

    def loss(self, step: Step) -> Tensor:
        """DER++'s loss with one draw and two views; the draw is stored with new logits."""
        seen = step.state["seen"]
        seen.scatter_(1, step.y, torch.ones_like(step.y, dtype=torch.bool))
        past = step.draw()
        now, then, also = step.net(step.x, past.x, step.view(past))
        step.remember(logits=now, seen=seen.unsqueeze(1).expand_as(now))
        step.rewrite(
            past, logits=self._updated(past.logits, then, past.y, seen.unsqueeze(1) & ~past.seen),
            seen=seen.unsqueeze(1).expand_as(past.seen),
        )  # fmt: skip
        return (
            step.criterion(now, step.y)
            + self.alpha * squared_distance(then, past.logits)
            + self.beta * step.criterion(also, past.y)
        )

    def _updated(self, stored: Tensor, now: Tensor, y: Tensor, new: Tensor) -> Tensor:
        """Stored logits `[K, n, C]` with those of the `new` classes, scaled."""
        now = now.detach()
        most = now.masked_fill(~new, -torch.inf).amax(2, keepdim=True)
        bound = torch.as_tensor(self.eta).view(-1, 1, 1) * stored.gather(2, y.unsqueeze(2))
        scale = torch.where(most > bound.clamp(min=0), bound / most, 1.0)
        return torch.where(new, now * scale, stored)
