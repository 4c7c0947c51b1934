"""CLS-ER: Complementary Learning Systems with Experience Replay (Arani et al., 2022)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from recollect.core.losses import squared_distance
from recollect.core.model import Model
from recollect.core.weights import State
from recollect.methods.base import Classifier, Query, Replay, Setup, Spec, Step, hyper


@dataclass(frozen=True)
class CLSER(Classifier):
    """ER with a consistency loss towards two exponential moving averages of the weights.

    After a step, the plastic and the stable average are each updated with some probability;
    `plastic_rate` should be larger than `stable_rate`, and `plastic_decay` at most `stable_decay`.
    The loss is that of ER plus `lambda` times the squared distance between the logits of replayed
    examples and those of the average that gives their label the larger probability. Predictions
    are made with the stable average.

    In step t the decays are at most 1 - 1 / (t + 1), as in the authors' code, so that the averages
    forget the initial weights. With `constant` 1 they are constant, as in the publication.

    >>> CLSER(lambda_=2.0, stable_decay=0.999)
    CLSER(lambda_=2.0, plastic_rate=0.9, stable_rate=0.7, plastic_decay=0.99, stable_decay=0.999, \
constant=0)
    """

    lambda_: float | Tensor = hyper(0.1, "weight of the distance to the averaged models' logits")
    plastic_rate: float | Tensor = hyper(0.9, "probability of updating the plastic average")
    stable_rate: float | Tensor = hyper(0.7, "probability of updating the stable average")
    plastic_decay: float | Tensor = hyper(0.99, "decay of the plastic average")
    stable_decay: float | Tensor = hyper(0.99, "decay of the stable average")
    constant: int = hyper(0, "1: constant decays, without a warm-up")

    name: ClassVar[str] = "cls-er"
    title: ClassVar[str] = "CLS-ER"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def setup(self, spec: Spec) -> Setup:
        """The two averages, initialised with the network, and the number of steps."""

        def state(model: Model) -> dict[str, Tensor]:
            copies = {**model.snapshot("plastic"), **model.snapshot("stable")}
            return {**copies, "steps": torch.zeros_like(model.rate)}

        return Setup(state=state)

    def update(self, step: Step) -> Tensor:
        """Take a step of ER with the consistency loss, then update both averages."""
        past = step.draw()
        plastic, stable = (step.model.stored(step.state, name) for name in ("plastic", "stable"))
        better = _better(plastic, stable, past.x, past.y) if past.x.shape[1] else None
        (logits,) = step.net(torch.cat([step.x, past.x], 1))
        loss = step.criterion(logits, torch.cat([step.y, past.y], 1))
        if better is not None:
            then = logits[:, step.x.shape[1] :]
            loss = loss + self.lambda_ * squared_distance(then, better)
        step.model.descend(step.model.gradient(loss))
        number = step.state["steps"].add_(1)
        drawn = step.random(2)[:, 0]  # [K, 2]
        self._move(plastic, step.model, number, drawn[:, 0] < self.plastic_rate, self.plastic_decay)
        self._move(stable, step.model, number, drawn[:, 1] < self.stable_rate, self.stable_decay)
        return loss.detach()

    def _move(
        self, copy: Model, model: Model, number: Tensor, chosen: Tensor, decay: float | Tensor
    ) -> None:
        """Update an average with the weights of the network, in the chosen runs."""
        kept = torch.as_tensor(decay).to(number)
        if not self.constant:
            kept = torch.minimum(1 - 1 / (number + 1), kept)
        copy.average_(model, torch.where(chosen, 1 - kept, 0), statistics=False)

    def predict(self, query: Query) -> Tensor:
        """The logits of the stable average."""
        return query.model.stored(query.state, "stable").logits(query.x)

    @torch.no_grad()
    def export(self, module: nn.Module, state: State) -> nn.Module:
        """The network with the weights and buffers of the stable average."""
        for part, named in (
            ("weights", module.named_parameters()), ("buffers", module.named_buffers()),
        ):  # fmt: skip
            for name, tensor in named:
                tensor.copy_(state[f"stable.{part}.{name}"][0])
        return module


@torch.no_grad()
def _better(plastic: Model, stable: Model, x: Tensor, y: Tensor) -> Tensor:
    """The logits `[K, n, C]` of the average that gives the label the larger probability.

    The averages run in training mode, so that their normalisation layers use batch statistics:
    averaged running statistics would not match the averaged weights.
    """
    logits = [copy(x) for copy in (plastic, stable)]
    label = y.unsqueeze(2)
    fast, slow = (each.softmax(2).gather(2, label) for each in logits)
    return torch.where(slow > fast, logits[1], logits[0])
