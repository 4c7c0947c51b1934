"""LwF: Learning without Forgetting (Li and Hoiem, 2017)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.losses import cross_entropy_among, log_softmax_among
from recollect.core.model import Model
from recollect.core.random import Purpose, bits, permute
from recollect.core.weights import Weights
from recollect.methods.base import Classifier, Needs, Setup, Spec, Step, Task, hyper


@dataclass(frozen=True)
class LwF(Classifier):
    """Learns a task while distilling the outputs for older classes from the network before it.

    The loss is the cross-entropy over the classes of the task, plus `alpha` times the cross-entropy
    between the old and the new network's probabilities of older classes, both at temperature `T`,
    plus `wd` times the squared norm of the weights. The old network is evaluated when an example
    arrives, since its outputs do not change. Before a task, the head's weights of new classes are
    warmed up for one epoch, with everything else frozen.

    >>> LwF(alpha=0.5, wd=5e-4)
    LwF(alpha=0.5, T=2.0, wd=0.0005)
    """

    alpha: float | Tensor = hyper(1.0, "weight of the distillation of older classes")
    T: float | Tensor = hyper(2.0, "temperature of the distillation")
    wd: float | Tensor = hyper(0.0, "weight of the squared norm of the weights")

    name: ClassVar[str] = "lwf"
    title: ClassVar[str] = "LwF"
    needs: ClassVar[Needs] = Needs(boundaries=True, revisits=True)

    def setup(self, spec: Spec) -> Setup:
        """The network before this task, and masks of its classes and of the task's classes."""

        def state(model: Model) -> dict[str, Tensor]:
            classes = (spec.runs, spec.classes)
            return {
                **model.snapshot("old"),
                "known": torch.zeros(classes, dtype=torch.bool),
                "now": torch.zeros(classes, dtype=torch.bool),
            }

        return Setup(state=state)

    def start_task(self, task: Task) -> None:
        """Record the classes of the task, and warm up the head's weights of new classes."""
        task.mark_classes()
        if task.clock.task:
            _warm_up(task)

    def update(self, step: Step) -> Tensor:
        """Take a step on the task, the distillation and weight decay; returns the loss `[K]`."""
        (logits,) = step.net(step.x)
        before = step.model.stored(step.state, "old").logits(step.x)
        now, known = step.state["now"], step.state["known"]
        heat = torch.as_tensor(self.T).view(-1, 1, 1)
        then, still = (log_softmax_among(known, some / heat) for some in (before, logits))
        changed = -(then.exp() * still).sum(2) * known.any(1, keepdim=True)
        loss = cross_entropy_among(now, logits, step.y) + self.alpha * changed.mean(1)
        gradient = step.model.gradient(loss)
        trained = {n: w for n, w in step.model.weights.named().items() if n in gradient.parts}
        step.model.descend(gradient, also=(Weights(trained), 2 * torch.as_tensor(self.wd)))
        return loss.detach()

    def end_task(self, task: Task) -> None:
        """Save the network, and add the classes of this task to the known ones."""
        task.model.save(task.state, "old")
        task.state["known"].logical_or_(task.state["now"])


def _warm_up(task: Task) -> None:
    """Train the head's weights of new classes for one epoch of SGD over the task."""
    state = task.state
    weight, bias = task.model.head()
    new = (state["now"] & ~state["known"]).to(weight.dtype)
    key = bits(task.seeds, Purpose.WARM, task.clock.task)
    order = permute(key[:, None], torch.arange(task.count, device=key.device), task.count)
    for some in torch.split(order, task.batch, 1):
        x, y = task.examples(some)
        features = task.features(x)
        logits = features @ weight
        if bias is not None:
            logits += bias.unsqueeze(1)
        errors = log_softmax_among(state["now"], logits).exp()
        errors.scatter_add_(2, y.unsqueeze(2), -torch.ones_like(errors[..., :1]))
        errors *= (new * -task.model.rate.unsqueeze(1) / y.shape[1]).unsqueeze(1)
        weight.add_(features.mT @ errors)
        if bias is not None:
            bias.add_(errors.sum(1))
