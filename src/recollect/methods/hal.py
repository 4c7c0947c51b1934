"""HAL: Hindsight Anchor Learning (Chaudhry et al., 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.descent import Descent
from recollect.core.losses import cross_entropy
from recollect.core.random import Purpose, bits, uniform
from recollect.errors import InputError
from recollect.memory import Reservoir, Rule, TaskRing
from recollect.methods.boundary import About, Boundary
from recollect.methods.method import Method
from recollect.methods.step import Step

__all__ = ["HAL"]


@dataclass(frozen=True)
class HAL(Method):
    """Replays, and holds on to its answers at points that it would be the first to forget.

    When a task ends, a copy of the network learns once more from the memory of earlier tasks; the
    anchor of a class is an input, found by gradient ascent, whose label that copy has forgotten
    most, with features close to the running mean phi of the class (`beta`: its decay; `gamma`:
    the weight of the squared distance). Later steps look ahead to where ER's step would lead, and
    add `lambda` times the mean squared change of the anchors' logits to what they descend on.

    As in the publication, replays and hindsight come from the newest examples of earlier tasks;
    its rings have a share for every class, ours for every task. The anchors are seen as in a test.
    With `reservoir` 1, both come from a reservoir of the whole stream instead.

    `recollect reproduce seq-mnist --methods hal` makes its rows of the paper's table.

    >>> HAL(lambda_=0.2)
    HAL(lambda_=0.2, beta=0.5, gamma=0.1, reservoir=0)
    """

    lambda_: float | Tensor = 0.1
    beta: float | Tensor = 0.5
    gamma: float | Tensor = 0.1
    reservoir: int = 0

    name: ClassVar[str] = "hal"
    title: ClassVar[str] = "HAL"
    remembers: ClassVar[tuple[str, ...]] = ("x", "y")
    draws: ClassVar[int] = 1
    shaping: ClassVar[tuple[str, ...]] = ("reservoir",)
    needs_boundaries: ClassVar[bool] = True
    grows: ClassVar[bool] = True

    def rule(self, capacity: int) -> Rule:
        """An equal share for every task, drawn from the earlier ones; or else a reservoir."""
        return Reservoir(capacity) if self.reservoir else TaskRing(capacity)

    def own(self, about: About) -> dict[str, Tensor]:
        """The anchors, as a network reads them, and the mean features of this task's classes."""
        number = next(iter(about.weights.values()))
        runs, anchors = about.runs, about.tasks * about.per_task
        return {
            "anchors": number.new_zeros(runs, anchors, *about.shape),
            "found": torch.zeros(runs, anchors, dtype=torch.bool),
            "phi": number.new_zeros(runs, about.classes, about.features),
            "met": torch.zeros(runs, about.classes, dtype=torch.bool),
        }

    def start_task(self, boundary: Boundary) -> None:
        """Mean features begin anew."""
        kept = boundary.memory.tensors["x"]
        if not (kept.is_floating_point() or kept.dtype == torch.uint8):
            raise InputError("HAL moves its anchors by gradients: examples must be images or reals")
        boundary.own["phi"].zero_()
        boundary.own["met"].zero_()

    def learn(self, step: Step) -> Tensor:
        """The step of ER, bent so that it moves the logits of the anchors less; the loss `[K]`."""
        past = step.draw()
        (logits,) = step.net(torch.cat([step.x, past.x], 1))
        loss = cross_entropy(logits, torch.cat([step.y, past.y], 1))
        gradient = step.gradient(loss)
        anchors, found = step.own["anchors"], step.own["found"].unsqueeze(2)
        moved = step.look(anchors, step.ahead(gradient)) - step.tested(anchors)  # [K, A, C]
        count = (found.sum((1, 2)) * moved.shape[2]).clamp(min=1)
        distance = torch.where(found, moved, 0).square().sum((1, 2)) / count
        anchoring = step.gradient(self.lambda_ * distance)
        step.descend(gradient, also=(anchoring, torch.ones_like(distance)))
        self._note(step)
        return (loss + self.lambda_ * distance).detach()

    def _note(self, step: Step) -> None:
        """Move the mean features of the classes that are in the batch."""
        phi, met = step.own["phi"], step.own["met"]
        labels = torch.arange(phi.shape[1], device=phi.device)
        which = (step.y.unsqueeze(1) == labels[:, None]).to(phi.dtype)  # [K, C, B]
        count = which.sum(2, keepdim=True)
        mean = torch.bmm(which, step.features(step.x)) / count.clamp(min=1)
        beta = torch.as_tensor(self.beta).view(-1, 1, 1)
        phi.copy_(torch.where(count > 0, beta * phi + (1 - beta) * mean, phi))
        met.logical_or_(count.squeeze(2) > 0)

    def end_task(self, boundary: Boundary) -> None:
        """Find an anchor for every class of the task, `[K, n, ...]` at once."""
        own, task = boundary.own, boundary.clock.task
        n = own["anchors"].shape[1] // boundary.clock.tasks
        labels = own["met"].long().argsort(dim=1, descending=True, stable=True)[:, :n]
        phi = own["phi"].gather(1, labels.unsqueeze(2).expand(-1, -1, own["phi"].shape[2]))
        now, later = boundary.scratch(), boundary.scratch()
        _learn_again(later, boundary, self.rule(boundary.memory.capacity))
        x = _noise(boundary, n)
        rate = now.rate.view(-1, *[1] * (x.dim() - 1))
        gamma = torch.as_tensor(self.gamma).view(-1, 1)
        for _ in range(ASCENT):
            x.requires_grad_()
            features, logits = now.tested(x)
            forgotten = _surprise(later.tested(x)[1], labels) - _surprise(logits, labels)
            aim = forgotten - gamma * (features - phi).square().sum(2)  # [K, n]
            x = (x + rate * now.network.slope(aim, x)).detach()
        here = slice(task * n, (task + 1) * n)
        own["anchors"][:, here] = x
        own["found"][:, here] = own["met"].gather(1, labels)


def _learn_again(descent: Descent, boundary: Boundary, rule: Rule) -> None:
    """Go once over all that may be replayed, in a random order and batches of one size."""
    memory, clock = boundary.memory, boundary.clock
    order = bits(boundary.seeds, Purpose.ANCHOR, clock.task)
    (slots,) = rule.draws(order, clock, 1, 1, rule.sizes(clock, 1, memory.capacity))  # [K, n]
    batches = math.ceil(slots.shape[1] / boundary.replay)
    with descent.network.seeded(clock.steps):
        for some in slots.tensor_split(batches, 1) if batches else ():
            past = memory.read(memory.rows(some))
            logits = descent.forward(boundary.shown(past.x))
            descent.descend(descent.gradient(cross_entropy(logits, past.y)))


def _noise(boundary: Boundary, n: int) -> Tensor:
    """Random inputs `[K, n, ...]`: bytes, or numbers in [0, 1), as a network reads them."""
    kept = boundary.memory.tensors["x"]
    shape = kept.shape[1:]
    place = torch.arange(n * math.prod(shape), device=kept.device)
    words = bits(boundary.seeds[:, None], Purpose.ANCHOR, boundary.clock.task, place)
    even = uniform(words).view(-1, n, *shape)
    return boundary.shown((even if kept.is_floating_point() else 256 * even).to(kept.dtype))


def _surprise(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross-entropy of every example, `[K, n]`."""
    return -logits.log_softmax(2).gather(2, labels.unsqueeze(2)).squeeze(2)


ASCENT = 100
