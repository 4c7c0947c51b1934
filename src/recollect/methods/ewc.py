"""EWC: Elastic Weight Consolidation (Kirkpatrick et al., 2017; online: Schwarz et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.losses import cross_entropy
from recollect.core.random import Purpose, bits, uniform
from recollect.core.weights import Weights
from recollect.methods.boundary import About, Boundary
from recollect.methods.kept import kept_weights, room_for_weights
from recollect.methods.method import Method
from recollect.methods.step import Step

__all__ = ["EWC", "OEWC", "fisher_of", "held"]

ROWS = 500


@dataclass(frozen=True)
class EWC(Method):
    """Holds every task's weights in place, as far as they mattered for that task.

    When a task ends, the weights w* are noted with their Fisher information F, and later steps
    add `lambda` times the sum of F (w - w*)^2 over tasks and weights to what they descend on. Only
    the sums of F and of F w* over tasks are kept: they say the same as all of them.

    F is the expectation over the network's own answers: the sum over all classes, weighed by their
    probabilities. With more classes than `answers`, so many are drawn for each example instead.

    `recollect run seq-mnist ewc --lambda 90`

    >>> EWC(lambda_=90.0)
    EWC(lambda_=90.0, answers=1000)
    """

    lambda_: float | Tensor = 1.0
    answers: int = 1000

    name: ClassVar[str] = "ewc"
    title: ClassVar[str] = "EWC"
    shaping: ClassVar[tuple[str, ...]] = ("answers",)
    needs_boundaries: ClassVar[bool] = True
    revisits: ClassVar[bool] = True

    def own(self, about: About) -> dict[str, Tensor]:
        """The sums of F and of F w*."""
        weights = about.weights
        return {**room_for_weights("fisher", weights), **room_for_weights("centre", weights)}

    def learn(self, step: Step) -> Tensor:
        """A step on the stream and the penalty; the loss on the stream, `[K]`."""
        fisher, centre = (kept_weights(step.own, name) for name in ("fisher", "centre"))
        pull = step.weights.map(lambda w, f, c: f * w - c, fisher, centre)
        return held(step, pull, 2 * self.lambda_)

    def end_task(self, boundary: Boundary) -> None:
        """Add this task's Fisher information, and its product with the weights."""
        fisher, centre = (kept_weights(boundary.own, name) for name in ("fisher", "centre"))
        one = boundary.ones
        found = fisher_of(boundary, answers=self.answers)
        fisher.add_(found, one)
        centre.add_(found.map(torch.mul, boundary.weights), one)


@dataclass(frozen=True)
class OEWC(Method):
    """Holds weights where they were after the last task, as far as they mattered so far.

    When a task ends, its Fisher information joins a running sum F that decays by `gamma`, and the
    weights w* are noted. Later steps add `lambda` times the sum of F (w - w*)^2. `answers` is as in
    EWC.

    `recollect reproduce seq-mnist --methods oewc` makes its row of the paper's table.

    >>> OEWC(lambda_=0.7)
    OEWC(lambda_=0.7, gamma=1.0, answers=1000)
    """

    lambda_: float | Tensor = 1.0
    gamma: float | Tensor = 1.0
    answers: int = 1000

    name: ClassVar[str] = "oewc"
    title: ClassVar[str] = "oEWC"
    shaping: ClassVar[tuple[str, ...]] = ("answers",)
    needs_boundaries: ClassVar[bool] = True
    revisits: ClassVar[bool] = True

    def own(self, about: About) -> dict[str, Tensor]:
        """The running Fisher information, and the weights after the last task."""
        weights = about.weights
        return {**room_for_weights("fisher", weights), **room_for_weights("last", weights)}

    def learn(self, step: Step) -> Tensor:
        """A step on the stream and the penalty; the loss on the stream, `[K]`."""
        fisher, last = (kept_weights(step.own, name) for name in ("fisher", "last"))
        pull = step.weights.map(lambda w, f, there: f * (w - there), fisher, last)
        return held(step, pull, 2 * self.lambda_)

    def end_task(self, boundary: Boundary) -> None:
        """Let the past fade, add what this task's examples say, and note the weights."""
        fisher, last = (kept_weights(boundary.own, name) for name in ("fisher", "last"))
        gamma = torch.as_tensor(self.gamma)
        fisher.return_to(fisher.map(torch.zeros_like), gamma)
        found = fisher_of(boundary, answers=self.answers)
        fisher.add_(found, boundary.ones)
        last.return_to(boundary.weights, torch.zeros_like(gamma))


def held(step: Step, pull: Weights, weight: float | Tensor) -> Tensor:
    """A step on the stream, and `weight` times a `pull` on the weights; the loss `[K]`."""
    (logits,) = step.net(step.x)
    loss = cross_entropy(logits, step.y)
    gradient = step.gradient(loss)
    step.descend(pull, torch.as_tensor(weight))
    step.descend(gradient)
    return loss.detach()


def fisher_of(boundary: Boundary, among: Tensor | None = None, answers: int = 1000) -> Weights:
    """The Fisher information of a task: the mean over its examples, among some classes `[K, C]`.

    It is the expectation over the network's own answers. With more classes than `answers`, so many
    are drawn for each example.
    """
    descent = boundary.scratch()
    total = boundary.weights.map(torch.zeros_like)
    share = torch.full_like(descent.rate, 1 / boundary.count)
    places = torch.arange(boundary.count, device=boundary.seeds.device)
    classes = boundary.logits(boundary.examples(boundary.for_all(places[:1]))[0]).shape[2]
    for some in torch.split(places, ROWS):
        x, _ = boundary.examples(boundary.for_all(some))
        draws = _draws(boundary, some, answers) if answers < classes else None
        total.add_(descent.fisher_information(boundary.shown(x), among, draws), share)
    return total


def _draws(boundary: Boundary, places: Tensor, answers: int) -> Tensor:
    """Random numbers `[K, n, answers]` for the examples at some places of a task."""
    seeds, numbers = boundary.seeds[:, None, None], torch.arange(answers, device=places.device)
    task = boundary.clock.task
    return uniform(bits(seeds, Purpose.ANSWER, task, places[:, None], numbers))
