"""EWC: Elastic Weight Consolidation (Kirkpatrick et al., 2017; online: Schwarz et al., 2018)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, uniform
from recollect.core.weights import Weights
from recollect.methods.base import Method, Needs, Setup, Spec, Step, Task, hyper
from recollect.methods.sgd import SGD

ROWS = 500


@dataclass(frozen=True)
class EWC(Method):
    """Penalises changes of weights in proportion to their importance for each earlier task.

    When a task ends, its weights w* and their Fisher information F are recorded, and the loss of
    later steps has the penalty `lambda` times the sum of F (w - w*)^2 over tasks and weights. Only
    the sums of F and of F w* over tasks are stored, which is enough for the penalty.

    F is the expectation over labels from the network's own predictions: a sum over all classes,
    weighted by their probabilities. With more classes than `answers`, that many labels are sampled
    per example instead.

    >>> EWC(lambda_=90.0)
    EWC(lambda_=90.0, answers=1000)
    """

    lambda_: float | Tensor = hyper(1.0, "weight of the penalty")
    answers: int = hyper(1000, "labels sampled per example if there are more classes than this")

    name: ClassVar[str] = "ewc"
    title: ClassVar[str] = "EWC"
    needs: ClassVar[Needs] = Needs(boundaries=True, revisits=True)

    def setup(self, spec: Spec) -> Setup:
        """The sums of F and of F w*."""
        return Setup(state=lambda model: {**model.zeros("fisher"), **model.zeros("centre")})

    def update(self, step: Step) -> Tensor:
        fisher, centre = (step.state.weights(name) for name in ("fisher", "centre"))
        pull = step.model.weights.map(lambda w, f, c: f * w - c, fisher, centre)
        return penalised(step, pull, 2 * self.lambda_)

    def end_task(self, task: Task) -> None:
        """Add this task's Fisher information, and its product with the weights, to the sums."""
        fisher, centre = (task.state.weights(name) for name in ("fisher", "centre"))
        found = fisher_of(task, answers=self.answers)
        fisher.add_(found, task.model.ones)
        centre.add_(found.map(torch.mul, task.model.weights), task.model.ones)


@dataclass(frozen=True)
class OEWC(Method):
    """Online EWC: penalises changes of weights since the last task by a running importance.

    When a task ends, its Fisher information is added to a running sum F with decay `gamma`, and
    the weights w* are recorded. The loss of later steps has the penalty `lambda` times the sum of
    F (w - w*)^2. `answers` is as in EWC.

    >>> OEWC(lambda_=0.7)
    OEWC(lambda_=0.7, gamma=1.0, answers=1000)
    """

    lambda_: float | Tensor = hyper(1.0, "weight of the penalty")
    gamma: float | Tensor = hyper(1.0, "decay of the Fisher information at a task's end")
    answers: int = hyper(1000, "labels sampled per example if there are more classes than this")

    name: ClassVar[str] = "oewc"
    title: ClassVar[str] = "oEWC"
    needs: ClassVar[Needs] = Needs(boundaries=True, revisits=True)

    def setup(self, spec: Spec) -> Setup:
        """The running Fisher information, and the weights after the last task."""
        return Setup(state=lambda model: {**model.zeros("fisher"), **model.zeros("last")})

    def update(self, step: Step) -> Tensor:
        fisher, last = (step.state.weights(name) for name in ("fisher", "last"))
        pull = step.model.weights.map(lambda w, f, there: f * (w - there), fisher, last)
        return penalised(step, pull, 2 * self.lambda_)

    def end_task(self, task: Task) -> None:
        consolidate(task, fisher_of(task, answers=self.answers), self.gamma)


def consolidate(task: Task, found: Weights, gamma: float | Tensor) -> None:
    """Decay the running Fisher information, add the new one, and record the current weights."""
    fisher, last = (task.state.weights(name) for name in ("fisher", "last"))
    fisher.lerp_from(fisher.map(torch.zeros_like), torch.as_tensor(gamma))
    new, here, there = found.named(), task.model.weights.named(), last.named()
    for name, tensor in fisher.named().items():
        tensor.add_(new[name])
        there[name].copy_(here[name])


def penalised(step: Step, pull: Weights, weight: float | Tensor) -> Tensor:
    """Take a step on the batch and a penalty with the gradient `pull`; returns the loss `[K]`."""
    loss = SGD().loss(step)
    gradient = step.model.gradient(loss)
    step.model.descend(gradient, also=(pull, torch.as_tensor(weight)))
    return loss.detach()


def fisher_of(task: Task, among: Tensor | None = None, answers: int = 1000) -> Weights:
    """The mean Fisher information over a task's examples, over a mask of classes `[K, C]`.

    It is the expectation over the network's own predictions. With more classes than `answers`,
    that many labels are sampled per example.
    """
    total = task.model.weights.map(torch.zeros_like)
    share = task.model.ones / task.count
    index = torch.arange(task.count, device=task.seeds.device)
    classes = task.logits(task.examples(task.for_all(index[:1]))[0]).shape[2]
    for some in torch.split(index, ROWS):
        x, _ = task.examples(task.for_all(some))
        draws = _draws(task, some, answers) if answers < classes else None
        total.add_(task.model.fisher_information(task.inputs(x), among, draws), share)
    return total


def _draws(task: Task, index: Tensor, answers: int) -> Tensor:
    """Random numbers `[K, n, answers]` for some examples of a task."""
    seeds, numbers = task.seeds[:, None, None], torch.arange(answers, device=index.device)
    return uniform(bits(seeds, Purpose.ANSWER, task.clock.task, index[:, None], numbers))
