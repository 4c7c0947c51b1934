"""P&C: Progress and Compress (Schwarz et al., 2018)."""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.losses import cross_entropy_among, log_softmax_among
from recollect.core.model import Model
from recollect.core.random import Purpose, bits, permute
from recollect.core.weights import Weights
from recollect.methods.base import Classifier, Needs, Setup, Spec, Step, Task, hyper
from recollect.methods.ewc import consolidate, fisher_of
from recollect.nets.progressive import progressive

BASE, ACTIVE = 0, 1


@dataclass(frozen=True)
class PC(Classifier):
    """Learns a task in an active column, then distils it into a knowledge base, which predicts.

    The active column has lateral connections from the knowledge base and is trained on the stream.
    When the task ends, it is distilled into the base for `passes` epochs, with a penalty of online
    EWC (`lambda`, `gamma`) to preserve earlier tasks. The softmax is over the classes of the task,
    in both columns and in the Fisher information.

    >>> PC(passes=3)
    PC(lambda_=10.0, gamma=1.0, passes=3)
    """

    lambda_: float | Tensor = hyper(10.0, "weight of the penalty")
    gamma: float | Tensor = hyper(1.0, "decay of the Fisher information at a task's end")
    passes: int = hyper(1, "epochs of distillation at a task's end")

    name: ClassVar[str] = "pc"
    title: ClassVar[str] = "P&C"
    needs: ClassVar[Needs] = Needs(boundaries=True, revisits=True)

    def setup(self, spec: Spec) -> Setup:
        """Two columns, the base's Fisher information and last weights, and the task's classes."""

        def state(model: Model) -> dict[str, Tensor]:
            both = {**model.zeros("fisher"), **model.zeros("last")}
            base = {n: t for n, t in both.items() if f".weights.columns.{BASE}." in n}
            return {**base, "now": torch.zeros(spec.runs, spec.classes, dtype=torch.bool)}

        return Setup(state=state, network=lambda build: partial(progressive, build, 2))

    def start_task(self, task: Task) -> None:
        task.mark_classes()

    def update(self, step: Step) -> Tensor:
        """Progress: take a step on the active column; returns the loss `[K]`."""
        step.model.begin(ACTIVE)
        (logits,) = step.net(step.x)
        loss = cross_entropy_among(step.state["now"], logits, step.y)
        step.model.descend(step.model.gradient(loss))
        return loss.detach()

    def end_task(self, task: Task) -> None:
        """Compress: distil the active column into the base, and update the Fisher information."""
        model = task.model.copy()
        key = bits(task.seeds, Purpose.WARM, task.clock.task)
        index = torch.arange(task.count, device=key.device)
        for number in range(self.passes):
            order = permute((key + number)[:, None], index, task.count)
            for some in torch.split(order, task.batch, 1):
                self._teach(model, task, task.inputs(task.examples(some)[0]))
        task.model.copy_(model)
        task.model.begin(BASE)
        consolidate(task, fisher_of(task, task.state["now"]), self.gamma)

    def _teach(self, model: Model, task: Task, x: Tensor) -> None:
        """Take a distillation step on the base, with the EWC penalty."""
        now = task.state["now"]
        model.begin(ACTIVE)
        answer = log_softmax_among(now, model.logits(x)).exp()
        model.begin(BASE)
        loss = -(answer * log_softmax_among(now, model(x))).sum(2).mean(1)
        gradient = model.gradient(loss)
        fisher, last = (task.state.weights(name) for name in ("fisher", "last"))
        base = Weights({n: model.weights.named()[n] for n in fisher.named()})
        pull = base.map(lambda w, f, there: f * (w - there), fisher, last)
        model.descend(gradient, also=(pull, 2 * torch.as_tensor(self.lambda_)))
