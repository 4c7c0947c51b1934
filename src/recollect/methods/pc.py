"""P&C: Progress and Compress (Schwarz et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.descent import Descent
from recollect.core.losses import among, cross_entropy_among
from recollect.core.random import Purpose, bits, permute
from recollect.core.weights import Weights
from recollect.methods.boundary import About, Boundary
from recollect.methods.ewc import fisher_of
from recollect.methods.kept import kept_weights, room_for_weights
from recollect.methods.method import Build, Method
from recollect.methods.step import Step
from recollect.nets.progressive import progressive

__all__ = ["PC"]

BASE, ACTIVE = 0, 1


@dataclass(frozen=True)
class PC(Method):
    """Learns a task in one column of a network, then distils it into another that is tested.

    The active column reads what the knowledge base sees, and learns the task as it comes. When the
    task ends, the base learns to answer its examples as the active column does, `passes` times
    over, while online EWC with `lambda` and `gamma` holds what the base knew. The classes of a
    task compete among themselves, in both columns and in the Fisher information.

    `recollect run seq-mnist pc`

    >>> PC(passes=3)
    PC(lambda_=10.0, gamma=1.0, passes=3)
    """

    lambda_: float | Tensor = 10.0
    gamma: float | Tensor = 1.0
    passes: int = 1

    name: ClassVar[str] = "pc"
    title: ClassVar[str] = "P&C"
    shaping: ClassVar[tuple[str, ...]] = ("passes",)
    needs_boundaries: ClassVar[bool] = True
    revisits: ClassVar[bool] = True

    def network(self, build: Build, tasks: int) -> Build:
        """The knowledge base and, beside it, the active column."""
        return progressive(build, 2)

    def own(self, about: About) -> dict[str, Tensor]:
        """The running Fisher information of the base, where it was, and this task's classes."""
        base = {n: w for n, w in about.weights.items() if n.startswith(f"columns.{BASE}.")}
        return {
            **room_for_weights("fisher", base),
            **room_for_weights("last", base),
            "now": torch.zeros(about.runs, about.classes, dtype=torch.bool),
        }

    def start_task(self, boundary: Boundary) -> None:
        """Note the classes of the task."""
        boundary.note_classes()

    def learn(self, step: Step) -> Tensor:
        """Progress: a step of the active column; the loss `[K]`."""
        step.begin(ACTIVE)
        (logits,) = step.net(step.x)
        loss = cross_entropy_among(step.own["now"], logits, step.y)
        step.descend(step.gradient(loss))
        return loss.detach()

    def end_task(self, boundary: Boundary) -> None:
        """Compress: teach the base what the active column knows, and note what matters in it."""
        descent = boundary.scratch()
        key = bits(boundary.seeds, Purpose.WARM, boundary.clock.task)
        places = torch.arange(boundary.count, device=key.device)
        for number in range(self.passes):
            order = permute((key + number)[:, None], places, boundary.count)
            for some in torch.split(order, boundary.batch, 1):
                self._teach(descent, boundary, boundary.shown(boundary.examples(some)[0]))
        boundary.take(descent)
        descent.network.begin(BASE)
        fisher, last = (kept_weights(boundary.own, name) for name in ("fisher", "last"))
        fisher.return_to(fisher.map(torch.zeros_like), torch.as_tensor(self.gamma))
        found = fisher_of(boundary, boundary.own["now"]).named()
        here = boundary.weights.named()
        for name, tensor in fisher.named().items():
            tensor.add_(found[name])
            last.named()[name].copy_(here[name])

    def _teach(self, descent: Descent, boundary: Boundary, x: Tensor) -> None:
        """A step of the base towards the answers of the active column, held by EWC."""
        now = boundary.own["now"]
        descent.network.begin(ACTIVE)
        answer = among(now, descent.look(x)).exp()
        descent.network.begin(BASE)
        loss = -(answer * among(now, descent.forward(x))).sum(2).mean(1)
        gradient = descent.gradient(loss)
        fisher, last = (kept_weights(boundary.own, name) for name in ("fisher", "last"))
        base = Weights({n: descent.weights.named()[n] for n in fisher.named()})
        pull = base.map(lambda w, f, there: f * (w - there), fisher, last)
        descent.descend(pull, 2 * torch.as_tensor(self.lambda_))
        descent.descend(gradient)
