"""HAL: Hindsight Anchor Learning (Chaudhry et al., 2020)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.model import Model
from recollect.core.random import Purpose, bits, uniform
from recollect.core.weights import column
from recollect.errors import InputError
from recollect.memory import Arrivals, Policy, Reservoir, TaskRing
from recollect.methods.base import Classifier, Needs, Replay, Setup, Spec, Step, Task, hyper
from recollect.methods.er import ER


@dataclass(frozen=True)
class HAL(Classifier):
    """ER that also preserves predictions at anchors: inputs that are most likely to be forgotten.

    When a task ends, a copy of the network is fine-tuned on the memory of earlier tasks. The anchor
    of a class is an input, found by gradient ascent, that maximises the increase of the loss from
    the network to this copy, with features close to the running mean phi of the class (`beta` is
    its decay, `gamma` the weight of the squared distance). The loss of later steps includes
    `lambda` times the mean squared change of the anchors' logits that a step of ER would cause.

    As in the publication, replay and fine-tuning use the most recent examples of earlier tasks; its
    ring buffers have a share for every class, ours for every task. Anchors are evaluated in
    evaluation mode. With `reservoir` 1, both use a reservoir of the whole stream instead.

    >>> HAL(lambda_=0.2)
    HAL(lambda_=0.2, beta=0.5, gamma=0.1, reservoir=0)
    """

    lambda_: float | Tensor = hyper(0.1, "weight of the change of the anchors' logits")
    beta: float | Tensor = hyper(0.5, "decay of the mean features of a class")
    gamma: float | Tensor = hyper(0.1, "weight of an anchor's distance to the mean features")
    reservoir: int = hyper(0, "1: a reservoir instead of a ring for every task")

    name: ClassVar[str] = "hal"
    title: ClassVar[str] = "HAL"
    needs: ClassVar[Needs] = Needs(boundaries=True, grows=True)
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def setup(self, spec: Spec) -> Setup:
        """The anchors, as network inputs, and the mean features of this task's classes."""

        def state(model: Model) -> dict[str, Tensor]:
            runs, anchors = spec.runs, spec.tasks * spec.per_task
            return {
                "anchors": model.ones.new_zeros(runs, anchors, *spec.shape),
                "found": torch.zeros(runs, anchors, dtype=torch.bool),
                "phi": model.ones.new_zeros(runs, spec.classes, model.feature_size),
                "met": torch.zeros(runs, spec.classes, dtype=torch.bool),
            }

        return Setup(policy=self._policy(spec.capacity), state=state)

    def _policy(self, capacity: int) -> Policy:
        """A ring buffer per task, with draws from earlier tasks, or a reservoir."""
        return Reservoir(capacity) if self.reservoir else TaskRing(capacity)

    def start_task(self, task: Task) -> None:
        stored = task.memory.tensors["x"]
        if not (stored.is_floating_point() or stored.dtype == torch.uint8):
            raise InputError(
                "HAL optimises its anchors by gradients: examples must be images or floating-point "
                "tensors"
            )
        task.state["phi"].zero_()
        task.state["met"].zero_()

    def update(self, step: Step) -> Tensor:
        """Take a step of ER with the penalty on the anchors' logits; returns the loss `[K]`."""
        loss = ER().loss(step)
        gradient = step.model.gradient(loss)
        anchors, found = step.state["anchors"], step.state["found"].unsqueeze(2)
        now = step.model.with_features(anchors, training=False)[1]
        moved = step.model.ahead(gradient).logits(anchors) - now  # [K, A, C]
        count = (found.sum((1, 2)) * moved.shape[2]).clamp(min=1)
        distance = torch.where(found, moved, 0).square().sum((1, 2)) / count
        anchoring = step.model.gradient(self.lambda_ * distance)
        step.model.descend(gradient, also=(anchoring, torch.ones_like(distance)))
        self._move_means(step)
        return (loss + self.lambda_ * distance).detach()

    def _move_means(self, step: Step) -> None:
        """Update the mean features of the classes in the batch."""
        phi, met = step.state["phi"], step.state["met"]
        labels = torch.arange(phi.shape[1], device=phi.device)
        which = (step.y.unsqueeze(1) == labels[:, None]).to(phi.dtype)  # [K, C, B]
        count = which.sum(2, keepdim=True)
        mean = torch.bmm(which, step.model.features(step.x)) / count.clamp(min=1)
        beta = torch.as_tensor(self.beta).view(-1, 1, 1)
        phi.copy_(torch.where(count > 0, beta * phi + (1 - beta) * mean, phi))
        met.logical_or_(count.squeeze(2) > 0)

    def end_task(self, task: Task) -> None:
        """Find an anchor for every class of the task, all at once, `[K, n, ...]`."""
        state, number = task.state, task.clock.task
        n = state["anchors"].shape[1] // task.clock.tasks
        labels = state["met"].long().argsort(dim=1, descending=True, stable=True)[:, :n]
        phi = state["phi"].gather(1, labels.unsqueeze(2).expand(-1, -1, state["phi"].shape[2]))
        now, later = task.model.copy(), task.model.copy()
        _learn_again(later, task, self._policy(task.memory.capacity))
        x = _noise(task, n)
        rate = column(now.rate, x)
        gamma = torch.as_tensor(self.gamma).view(-1, 1)
        for _ in range(ASCENT):
            x.requires_grad_()
            features, logits = now.with_features(x, training=False)
            after = later.with_features(x, training=False)[1]
            each = now.criterion.each
            forgotten = each(after, labels) - each(logits, labels)
            aim = forgotten - gamma * (features - phi).square().sum(2)  # [K, n]
            x = (x + rate * now.input_gradient(aim, x)).detach()
        here = slice(number * n, (number + 1) * n)
        state["anchors"][:, here] = x
        state["found"][:, here] = state["met"].gather(1, labels)


def _learn_again(model: Model, task: Task, policy: Policy) -> None:
    """Train for one epoch on all stored examples, in random order and batches of equal size."""
    memory, clock = task.memory, task.clock
    order = Arrivals(bits(task.seeds, Purpose.ANCHOR, clock.task), clock, steps=1, batch=1)
    (slots,) = policy.draws(order, policy.sizes(clock, 1, memory.capacity)).slots  # [K, n]
    batches = math.ceil(slots.shape[1] / task.replay)
    with model.network.seeded(clock.steps):
        for some in slots.tensor_split(batches, 1) if batches else ():
            past = memory.read(memory.rows(some))
            loss = model.criterion(model(task.inputs(past.x)), past.y)
            model.descend(model.gradient(loss))


def _noise(task: Task, n: int) -> Tensor:
    """Random network inputs `[K, n, ...]`, drawn as uint8 or in [0, 1) like the stored ones."""
    stored = task.memory.tensors["x"]
    shape = stored.shape[1:]
    index = torch.arange(n * math.prod(shape), device=stored.device)
    words = bits(task.seeds[:, None], Purpose.ANCHOR, task.clock.task, index)
    even = uniform(words).view(-1, n, *shape)
    return task.inputs((even if stored.is_floating_point() else 256 * even).to(stored.dtype))


ASCENT = 100
