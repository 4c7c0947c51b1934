"""CLS-ER: complementary learning systems with experience replay (Arani et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect import Method, Query, Replay, Setup, Spec, Step, hyper
from recollect.core.losses import squared_distance

__all__ = ["CLSER"]


@dataclass(frozen=True)
class CLSER(Method):
    """Replays towards the better of two averages of the network, and predicts with the slower one.

    The plastic and the stable model are exponential moving averages of weights and statistics,
    updated with some probability after a step.
    """

    weight: float | Tensor = hyper(0.1, "weight of the distance to the averages' logits")
    plastic_rate: float | Tensor = hyper(0.9, "probability that the plastic model is updated")
    stable_rate: float | Tensor = hyper(0.7, "probability that the stable model is updated")
    plastic_decay: float | Tensor = hyper(0.9, "decay of the plastic model")
    stable_decay: float | Tensor = hyper(0.95, "decay of the stable model")

    name: ClassVar[str] = "cls-er"
    title: ClassVar[str] = "CLS-ER"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def setup(self, spec: Spec) -> Setup:
        """The two averages, which start as the network, and the number of steps."""
        return Setup(
            state=lambda model: {
                **model.snapshot("plastic"),
                **model.snapshot("stable"),
                "steps": torch.zeros(spec.runs),
            }
        )

    def update(self, step: Step) -> Tensor:
        """ER with the consistency of replayed logits; then move the averages."""
        past = step.draw()
        now, then = step.net(step.x, past.x)
        plastic, stable = (step.model.stored(step.state, name) for name in ("plastic", "stable"))
        logits = torch.cat([now, then], 1)
        target = _more_certain(plastic.logits(past.x), stable.logits(past.x), past.y)
        loss = step.criterion(logits, torch.cat([step.y, past.y], 1))
        loss = loss + self.weight * squared_distance(then, target)
        step.model.descend(step.model.gradient(loss))

        number = step.state["steps"].add_(1)
        chance = step.random(2)[:, 0]  # [K, 2]
        rates = (self.plastic_rate, self.stable_rate)
        decays = (self.plastic_decay, self.stable_decay)
        for average, drawn, rate, decay in zip((plastic, stable), chance.unbind(1), rates, decays,
                                               strict=True):  # fmt: skip
            kept = torch.minimum(1 - 1 / (number + 1), torch.as_tensor(decay))
            average.average_(step.model, torch.where(drawn < rate, 1 - kept, 0.0))
        return loss.detach()

    def predict(self, query: Query) -> Tensor:
        """The logits of the stable model."""
        return query.model.stored(query.state, "stable").logits(query.x)


def _more_certain(one: Tensor, other: Tensor, y: Tensor) -> Tensor:
    """The logits of the model that gives the label the larger probability, example by example."""
    sure = [logits.softmax(2).gather(2, y.unsqueeze(2)) for logits in (one, other)]
    return torch.where(sure[0] > sure[1], one, other)
