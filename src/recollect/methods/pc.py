"""P&C: Progress and Compress (Schwarz et al., 2018)."""

from dataclasses import dataclass
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
    """Learns a task in one column of a network, then distils it into another, which predicts.

    The active column reads what the knowledge base sees, and learns the task as it comes. When the
    task ends, the base learns to answer its examples as the active column does, `passes` times
    over, while online EWC with `lambda` and `gamma` holds what the base knew. The classes of a
    task compete among themselves, in both columns and in the Fisher information.

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
        """Two columns; the Fisher information of the base, where it was, and a task's classes."""

        def state(model: Model) -> dict[str, Tensor]:
            both = {**model.zeros("fisher"), **model.zeros("last")}
            base = {n: t for n, t in both.items() if f".weights.columns.{BASE}." in n}
            return {**base, "now": torch.zeros(spec.runs, spec.classes, dtype=torch.bool)}

        return Setup(state=state, network=lambda build: progressive(build, 2))

    def start_task(self, task: Task) -> None:
        task.mark_classes()

    def update(self, step: Step) -> Tensor:
        """Progress: a step of the active column; the loss `[K]`."""
        step.model.begin(ACTIVE)
        (logits,) = step.net(step.x)
        loss = cross_entropy_among(step.state["now"], logits, step.y)
        step.model.descend(step.model.gradient(loss))
        return loss.detach()

    def end_task(self, task: Task) -> None:
        """Compress: teach the base what the active column knows, and find what matters in it."""
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
        """A step of the base towards the answers of the active column, penalised by EWC."""
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
