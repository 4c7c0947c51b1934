"""HAT: Hard Attention to the Task (Serra et al., 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.losses import cross_entropy_among
from recollect.core.weights import Weights
from recollect.methods.boundary import About, Boundary
from recollect.methods.kept import kept_weights, room_for_weights
from recollect.methods.method import Build, Method
from recollect.methods.step import Step
from recollect.nets.gated import gated, steepness

__all__ = ["HAT"]

MOST = 6.0
TINY = 1e-12


@dataclass(frozen=True)
class HAT(Method):
    """Learns for every task which hidden units it uses, and protects them from later tasks.

    Each unit has a gate for each task, sigmoid(s e), learnt with the weights; s rises in every
    epoch from 1 / `smax` to `smax`, so that gates end open or closed. A weight changes the less,
    the more earlier tasks used the units at both its ends. `c` weighs how many units the task
    takes that were free. The classes of a task compete among themselves, and a test must say
    which task it belongs to.

    `recollect run seq-mnist hat`

    >>> HAT(smax=300.0)
    HAT(smax=300.0, c=0.75)
    """

    smax: float | Tensor = 400.0
    c: float | Tensor = 0.75

    name: ClassVar[str] = "hat"
    title: ClassVar[str] = "HAT"
    needs_boundaries: ClassVar[bool] = True
    grows: ClassVar[bool] = True
    needs_task: ClassVar[bool] = True

    def network(self, build: Build, tasks: int) -> Build:
        """Gates for every task."""
        return gated(build, tasks)

    def own(self, about: About) -> dict[str, Tensor]:
        """How much weights may change, how much units are used, and where an epoch stands."""
        gates = {n: w for n, w in about.weights.items() if n.startswith("gates.")}
        free = room_for_weights("free", {n: w for n, w in about.weights.items() if n not in gates})
        return {
            **{name: torch.ones_like(tensor) for name, tensor in free.items()},
            **{f"used.{n}": torch.zeros_like(entries[:, 0]) for n, entries in gates.items()},
            "now": torch.zeros(about.runs, about.classes, dtype=torch.bool),
            "step": torch.zeros(about.runs, dtype=torch.int64),
            "steps": torch.ones(about.runs, dtype=torch.int64),
            "task": torch.zeros(about.runs, dtype=torch.int64),
        }

    def start_task(self, boundary: Boundary) -> None:
        """Note the classes of the task and how many steps an epoch has."""
        own = boundary.own
        boundary.note_classes()
        own["step"].zero_()
        own["steps"].fill_(-(-boundary.count // boundary.batch))
        own["task"].fill_(boundary.clock.task)

    def learn(self, step: Step) -> Tensor:
        """A step on weights that are free and on the gates of the task; the loss `[K]`."""
        sharp = self._sharpen(step)
        (logits,) = step.net(step.x)
        loss = cross_entropy_among(step.own["now"], logits, step.y)
        slopes = step.gradient(loss).dense().named()
        free = kept_weights(step.own, "free").named()
        moves = {n: slope * free[n] for n, slope in slopes.items() if n in free}
        gates = {n: slope for n, slope in slopes.items() if n not in free}
        moves |= self._attend(step, gates, sharp)
        step.descend(Weights(moves))
        for name in gates:
            step.weights.named()[name].clamp_(-MOST, MOST)
        step.own["step"].add_(1)
        return loss.detach()

    def end_task(self, boundary: Boundary) -> None:
        """Note which units the task uses, and what may still change."""
        own, weights = boundary.own, boundary.weights.named()
        smax = torch.as_tensor(self.smax, dtype=weights["sharpness"].dtype).view(-1, 1)
        weights["sharpness"].copy_(smax.expand_as(weights["sharpness"]))
        used = []
        for name, entries in weights.items():
            if name.startswith("gates."):
                gate = (smax * entries[:, boundary.clock.task]).sigmoid()
                used.append(own[f"used.{name}"].copy_(own[f"used.{name}"].maximum(gate)))
        free = kept_weights(own, "free").named()
        for number, out in enumerate(used):
            layer = free[f"hidden.{number}.weight"]
            into = out.unsqueeze(1).expand_as(layer)
            if number:
                into = into.minimum(used[number - 1].unsqueeze(2))
            layer.copy_(1 - into)
            free[f"hidden.{number}.bias"].copy_(1 - out)

    def _sharpen(self, step: Step) -> Tensor:
        """Set how sharp gates are at this step of an epoch, `[K, 1]`."""
        step_now, steps = step.own["step"], step.own["steps"]
        part = (step_now % steps) / (steps - 1).clamp(min=1)
        smax = torch.as_tensor(self.smax)
        sharp = (1 / smax + (smax - 1 / smax) * part).unsqueeze(1)
        weights = step.weights.named()
        weights["sharpest"].copy_(smax.view(-1, 1).expand_as(sharp))
        return weights["sharpness"].copy_(sharp)

    def _attend(self, step: Step, slopes: Mapping[str, Tensor], sharp: Tensor) -> dict[str, Tensor]:
        """The slopes of the gates, with those of what it costs to take units that are free."""
        c, task = torch.as_tensor(self.c).view(-1, 1), step.own["task"]
        smax = step.weights.named()["sharpest"]
        unused = {n: 1 - step.own[f"used.{n}"] for n in slopes}
        total = torch.stack([left.sum(1) for left in unused.values()]).sum(0)[:, None]
        moves = {}
        for name, slope in slopes.items():
            entries = step.weights.named()[name]
            here = task.view(-1, 1, 1).expand(-1, 1, entries.shape[2])
            entry = entries.gather(1, here).squeeze(1)
            cost = c * unused[name] / total.clamp(min=TINY) * steepness(entry, sharp, smax)
            moves[name] = slope.scatter_add(1, here, cost.unsqueeze(1))
        return moves
