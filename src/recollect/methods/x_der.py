"""X-DER: eXtended Dark Experience Replay (Boschini et al., 2022)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import normalize

from recollect.core.losses import cross_entropy_among, squared_distance, supervised_contrastive
from recollect.core.random import Purpose, bits, permute
from recollect.memory import Stored, TaskShares
from recollect.methods.base import Classifier, Needs, Replay, Setup, Spec, Step, Task, hyper
from recollect.methods.setup import Field


@dataclass(frozen=True)
class XDER(Classifier):
    """DER++ that updates stored logits with later classes and prepares the outputs of future ones.

    Outputs belong to past classes, classes of the current task, and future classes. The softmax of
    incoming examples is over the current classes, that of replayed labels (`beta`) over the past
    ones. Logits of replayed examples are regularised towards the stored ones (`alpha`), whose
    entries for current classes are rewritten during training, scaled to at most `gamma` times the
    logit of the label. The outputs of each future task are trained with a contrastive loss
    (`lambda`), and past and future logits are pushed below that of the label by a margin `m`
    (`eta`).

    >>> XDER(alpha=0.1).gamma
    0.85
    """

    alpha: float | Tensor = hyper(0.3, "weight of the squared distance to the stored logits")
    beta: float | Tensor = hyper(0.8, "weight of the loss on replayed labels")
    gamma: float | Tensor = hyper(0.85, "largest rewritten logit, relative to the label's logit")
    lambda_: float | Tensor = hyper(0.05, "weight of the contrastive loss of future outputs")
    eta: float | Tensor = hyper(0.1, "weight of the margin to past and future logits")
    m: float | Tensor = hyper(0.3, "margin between the label's logit and past or future ones")
    temperature: float | Tensor = hyper(5.0, "temperature of the contrastive loss")
    views: int = hyper(2, "views of every example in the contrastive loss")

    name: ClassVar[str] = "x-der"
    title: ClassVar[str] = "X-DER"
    needs: ClassVar[Needs] = Needs(boundaries=True, revisits=True)
    replay: ClassVar[Replay] = Replay(
        ("x", "y", "logits", Field("drawn", (), torch.int64)), draws=3
    )

    def setup(self, spec: Spec) -> Setup:
        """Masks of past and current classes and of every future task's outputs, and their number.

        `drawn` counts how often an example was drawn for its logits or label in this task.
        """
        classes, heads = (spec.runs, spec.classes), -(-spec.classes // spec.per_task)
        state = {
            "past": torch.zeros(classes, dtype=torch.bool),
            "now": torch.zeros(classes, dtype=torch.bool),
            "heads": torch.zeros(spec.runs, heads, spec.classes, dtype=torch.bool),
            "per_task": torch.full((spec.runs, 1), spec.per_task),
        }
        return Setup(policy=TaskShares(spec.capacity), state=lambda model: state)

    def start_task(self, task: Task) -> None:
        """Record the classes of the task, and divide the unused outputs among future tasks."""
        task.mark_classes()
        future = ~(task.state["past"] | task.state["now"])
        head = (future.cumsum(1) - 1) // task.state["per_task"]  # [K, C]
        number = torch.arange(task.state["heads"].shape[1], device=head.device)
        task.state["heads"].copy_(future.unsqueeze(1) & (head.unsqueeze(1) == number[:, None]))

    def loss(self, step: Step) -> Tensor:
        """The sum of all five terms, `[K]`; rewrites the stored logits of two draws."""
        matched, labelled = step.draw(), step.draw()
        now, then, also = step.net(step.x, matched.x, labelled.x)
        past, present = step.state["past"], step.state["now"]
        self._rewrite(step, matched, then)
        self._rewrite(step, labelled, also)
        every = torch.cat([now, then, also], 1)
        labels = torch.cat([step.y, matched.y, labelled.y], 1)
        margins = self._margin(now, step.y, past & ~present) + self._margin(
            every, labels, ~(past | present)
        )
        return (
            cross_entropy_among(present, now, step.y)
            + self.alpha * squared_distance(then, matched.logits)
            + self.beta * cross_entropy_among(past, also, labelled.y)
            + self.lambda_ * self._future(step)
            + self.eta * margins
        )

    def _margin(self, logits: Tensor, y: Tensor, classes: Tensor) -> Tensor:
        """The hinge loss of the largest logit of some classes below the label's logit, `[K]`."""
        low = torch.finfo(logits.dtype).min
        most = logits.masked_fill(~classes.unsqueeze(1), low).amax(2)
        label = logits.gather(2, y.unsqueeze(2)).squeeze(2)
        return (most + torch.as_tensor(self.m).view(-1, 1) - label).relu().mean(1)

    def _future(self, step: Step) -> Tensor:
        """The contrastive loss of batch and draw in the outputs of each future task, `[K]`."""
        past = step.draw()
        views = [torch.cat([step.view(), step.view(past)], 1) for _ in range(self.views)]
        outputs = step.model(torch.cat(views, 1), statistics=False)
        labels = torch.cat([step.y, past.y] * self.views, 1)
        heads = step.state["heads"]  # [K, H, C]
        points = normalize(outputs.unsqueeze(1) * heads.unsqueeze(2).to(outputs.dtype), dim=3)
        heat = torch.as_tensor(self.temperature).view(-1, 1)
        each = supervised_contrastive(points, labels.unsqueeze(1), heat)  # [K, H]
        left = heads.any(2)
        return torch.where(left, each, 0).sum(1) / left.sum(1).clamp(min=1)

    def _rewrite(self, step: Step, draw: Stored, logits: Tensor) -> None:
        """Rewrite an example's stored logits with probability 1 / n at its n-th draw."""
        runs, count = draw.y.shape
        drawn = draw.drawn + 1
        random = step.random(-(-count // step.y.shape[1])).view(runs, -1)[:, :count]
        older = ~step.state["now"].gather(1, draw.y)
        updated = self.updated(draw.logits, logits.detach(), draw.y, step.state["now"])
        chosen = ((random * drawn < 1) & older).unsqueeze(2)
        step.rewrite(draw, logits=torch.where(chosen, updated, draw.logits), drawn=drawn)

    def updated(self, stored: Tensor, logits: Tensor, y: Tensor, classes: Tensor) -> Tensor:
        """Replace the stored logits `[K, n, C]` of some classes `[K, C]` by scaled new logits.

        The new logits are scaled down if the largest exceeds `gamma` times the stored logit of the
        label, to be equal to it, or to zero if the two have different signs.
        """
        some = classes.unsqueeze(1)
        most = logits.masked_fill(~some, torch.finfo(logits.dtype).min).amax(2, keepdim=True)
        bound = torch.as_tensor(self.gamma).view(-1, 1, 1) * stored.gather(2, y.unsqueeze(2))
        scale = torch.where(most > bound, (bound / most).clamp(min=0), 1)
        return torch.where(some, logits * scale, stored)

    def end_task(self, task: Task) -> None:
        """Shrink earlier shares, rewrite stored logits, and store a balanced sample of the task."""
        memory, state, past = task.memory, task.state, task.state["past"]
        policy, counts = TaskShares(memory.capacity), task.clock.counts
        after = policy.stored((*counts, task.count))
        stay = policy.staying(counts, task.count)
        old = memory.read(memory.rows(task.for_all(stay)))
        updated = self.updated(old.logits, _responses(task, old.x), old.y, state["now"])
        older = ~state["now"].gather(1, old.y).unsqueeze(2)
        x, y = task.examples(_in_turn(task, after[-1]))
        logits = _responses(task, x)
        fields = {
            "x": [old.x, x],
            "y": [old.y, y],
            "logits": [
                torch.where(older, updated, old.logits),
                self.updated(logits, logits, y, past & ~state["now"]),
            ],
            "drawn": [torch.zeros_like(old.y), torch.zeros_like(y)],
        }
        rows = memory.rows(task.for_all(torch.arange(sum(after))))
        memory.write(rows, {name: torch.cat(parts, 1) for name, parts in fields.items()})
        past.logical_or_(state["now"])


def _responses(task: Task, x: Tensor) -> Tensor:
    """The logits of stored examples in training mode, augmented, without updating statistics."""
    before = {name: tensor.clone() for name, tensor in task.model.buffers.items()}
    logits = task.training_logits(x)
    for name, tensor in before.items():
        task.model.buffers[name].copy_(tensor)
    return logits


def _in_turn(task: Task, count: int) -> Tensor:
    """The indices `[K, count]` of random examples, taken from the classes in turn."""
    key = bits(task.seeds, Purpose.KEEP, task.clock.task)
    order = torch.arange(task.count, device=key.device)
    index = permute(key[:, None], order, task.count)  # [K, n]
    labels, place = task.labels().gather(1, index).sort(dim=1, stable=True)
    rank = order - torch.searchsorted(labels, labels)
    turn = torch.empty_like(place).scatter_(1, place, rank) * task.count + order
    return index.gather(1, turn.argsort(1)[:, :count])
