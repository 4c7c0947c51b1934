"""iCaRL: Incremental Classifier and Representation Learning (Rebuffi et al., 2017)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, normalize

from recollect.core.model import Model
from recollect.core.weights import Weights
from recollect.errors import InputError
from recollect.memory import TaskShares
from recollect.memory.by_features import herd
from recollect.methods.base import Classifier, Needs, Query, Replay, Setup, Spec, Step, Task, hyper
from recollect.methods.closed_form import by_distance, one_hot

ROWS = 1000


@dataclass(frozen=True)
class ICaRL(Classifier):
    """Learns features, and predicts the class whose exemplars have the nearest mean feature.

    Exemplars, an equal share of the memory for every class, are added to the data of each task.
    Training uses a binary cross-entropy for every class: the targets are the labels for classes of
    the task, and the outputs of the network before the task for older ones. `wd` is the weight of
    the squared norm of the weights.

    >>> ICaRL(wd=1e-5)
    ICaRL(wd=1e-05)
    """

    wd: float | Tensor = hyper(0.0, "weight of the squared norm of the weights")

    name: ClassVar[str] = "icarl"
    title: ClassVar[str] = "iCaRL"
    needs: ClassVar[Needs] = Needs(boundaries=True, revisits=True)
    replay: ClassVar[Replay] = Replay(("x", "y"), draws=0)

    def setup(self, spec: Spec) -> Setup:
        """The old network and, for every class, masks of new and seen, exemplar counts and means.

        Exemplars are stored at task end, one class after the other, the most important first.
        """
        if spec.capacity < spec.classes:
            raise InputError(
                f"iCaRL stores at least one exemplar per class: a buffer of {spec.capacity} is too "
                f"small for {spec.classes} classes"
            )

        def state(model: Model) -> dict[str, Tensor]:
            size = (spec.runs, spec.classes)
            return {
                **model.snapshot("old"),
                "now": torch.zeros(size, dtype=torch.bool),
                "seen": torch.zeros(size, dtype=torch.bool),
                "exemplars": torch.zeros(size, dtype=torch.int64),
                "means": model.ones.new_zeros(*size, model.feature_size),
            }

        return Setup(policy=TaskShares(spec.capacity), state=state)

    def update(self, step: Step) -> Tensor:
        """Take a step on classification, distillation and weight decay; returns their sum `[K]`."""
        (logits,) = step.net(step.x)
        label = one_hot(step.y, logits.shape[2], logits.dtype)
        before = step.model.stored(step.state, "old").logits(step.x).sigmoid()
        answer = torch.where(step.state["now"].unsqueeze(1), label, before)
        surprise = binary_cross_entropy_with_logits(logits, answer, reduction="none")
        seen = step.state["seen"].to(logits.dtype)
        loss = (surprise.mean(1) * seen).sum(1) / seen.sum(1).clamp(min=1)
        gradient = step.model.gradient(loss)
        trained = {n: w for n, w in step.model.weights.named().items() if n in gradient.parts}
        decayed, weight = Weights(trained), torch.as_tensor(self.wd)
        loss = loss.detach() + weight * decayed.dot(decayed)
        step.model.descend(gradient, also=(decayed, 2 * weight))
        return loss

    def start_task(self, task: Task) -> None:
        """Record the new classes, and add all exemplars to the data of the task."""
        _mark_new(task)
        task.rehearse(_stored(task))

    def end_task(self, task: Task) -> None:
        """Select exemplars of the new classes, reduce those of old ones, and update the means.

        A class that occurs again counts as new: its exemplars are selected again.
        """
        state, memory = task.state, task.memory
        labels = _mark_new(task)
        share = memory.capacity // int(state["seen"][0].sum())
        old = memory.read(memory.rows(task.for_all(_staying(task, share))))
        x, y = task.examples(_chosen(task, labels, share))
        x, y = torch.cat([old.x, x], 1), torch.cat([old.y, y], 1)
        slots = task.for_all(torch.arange(y.shape[1]))
        memory.write(memory.rows(slots), {"x": x, "y": y})
        state["exemplars"].zero_().scatter_add_(1, y, torch.ones_like(y))
        features = normalize(task.features(x), dim=2)
        member = one_hot(y, state["means"].shape[1], features.dtype)
        state["means"].copy_(normalize(member.mT @ features, dim=2))
        task.model.save(state, "old")

    def predict(self, query: Query) -> Tensor:
        """The negative distance to the mean of each class; very low for one without exemplars."""
        features = normalize(query.model.features(query.x), dim=2)
        return by_distance(features, query.state["means"], query.state["exemplars"])


def _stored(task: Task) -> int:
    return int(task.state["exemplars"][0].sum())


def _staying(task: Task, share: int) -> Tensor:
    """The slots of the first `share` exemplars of every class that is not new."""
    y = task.memory.fields().y[0, : _stored(task)]
    older = (task.state["exemplars"][0] > 0) & ~task.state["now"][0]
    slots = [(y == label).nonzero().flatten()[:share] for label in older.nonzero().flatten()]
    return torch.cat([*slots, y[:0]])


def _chosen(task: Task, labels: Tensor, share: int) -> Tensor:
    """Select exemplars of the new classes, one class after the other; returns indices `[K, n]`."""
    parts = task.for_all(torch.arange(task.count)).split(ROWS, 1)  # type: ignore[no-untyped-call]
    found = [task.features(task.examples(index)[0]) for index in parts]
    features = normalize(torch.cat(found, 1), dim=2)
    chosen = []
    for label in task.state["now"][0].nonzero().flatten():
        index = (labels == label).nonzero()[:, 1].view(len(labels), -1)
        mine = features.gather(1, index.unsqueeze(2).expand(-1, -1, features.shape[2]))
        chosen.append(index.gather(1, herd(mine, min(share, index.shape[1]))))
    return torch.cat(chosen, 1)


def _mark_new(task: Task) -> Tensor:
    """Record the classes of a task as new; return its labels, `[K, n]`."""
    labels = task.labels()
    ordered = labels.sort(1).values
    if not torch.equal(ordered, ordered[:1].expand_as(ordered)):
        raise InputError(
            "iCaRL divides its memory among classes: all runs of a fleet must have the same "
            "classes in a task, with equal counts; train other runs in a separate fleet"
        )
    task.mark_classes()
    task.state["seen"].logical_or_(task.state["now"])
    return labels
