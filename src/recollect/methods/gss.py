"""GSS: Gradient-based Sample Selection, the greedy variant (Aljundi et al., 2019)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.model import Model
from recollect.memory import Chosen, last_in_slot
from recollect.methods.base import Method, Replay, Setup, SlotState, Spec, Step, hyper
from recollect.methods.er import ER


@dataclass(frozen=True)
class GSS(Method):
    """Stores examples whose gradients point in different directions.

    The score of an example is the largest cosine similarity, plus one, of its gradient with those
    of `gmbs` random stored examples. Until the memory is full, examples are stored with their
    scores. Then, an example with a negative similarity to all of them (a score c below 1) competes
    with a stored example, drawn in proportion to the stored scores C, and replaces it with
    probability C / (C + c). All examples of a batch are compared with the same stored examples, and
    are stored one after the other. Training is as in ER, with `nb` steps per batch.

    With `whole` 1, the mean gradient of a batch decides whether its examples may replace stored
    ones, and is their score until the memory is full.

    >>> GSS(gmbs=64, nb=2)
    GSS(gmbs=64, nb=2, whole=0)
    """

    gmbs: int = hyper(10, "number of stored examples that gradients are compared with")
    nb: int = hyper(1, "steps per batch")
    whole: int = hyper(0, "1: use the mean gradient of a batch for all of its examples")

    name: ClassVar[str] = "gss"
    title: ClassVar[str] = "GSS"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def setup(self, spec: Spec) -> Setup:
        """A draw per step and one to compare with, and the score of every slot.

        The last score belongs to examples that are not stored.
        """

        def state(model: Model) -> dict[str, Tensor | SlotState]:
            score = torch.zeros(spec.runs, spec.capacity + 1, dtype=torch.float64)
            return {"score": SlotState(score)}

        replay = Replay(self.replay.fields, draws=self.nb + 1)
        policy = Chosen(spec.capacity, self.gmbs)
        return Setup(policy, replay, state)

    def update(self, step: Step) -> Tensor:
        """Train as ER does, then select the examples to store; returns the loss `[K]`."""
        for _ in range(self.nb):
            loss = ER().loss(step)
            step.model.descend(step.model.gradient(loss))
        self._store(step)
        return loss.detach()

    def _store(self, step: Step) -> None:
        known, capacity = step.state["score"], step.state["score"].shape[1] - 1
        score, whole = _scores(step)
        judged = whole.expand_as(score) if self.whole else score
        first, second = step.random(2).unbind(2)  # [K, B] each
        full = step.slots == capacity
        # A stored score C above this threshold is replaced, which has probability C / (C + c).
        above = torch.where(full & (judged < 1), score * second / (1 - second), torch.inf)
        entering = torch.where(full, score, judged)
        placed = []
        # In order, since each example changes the scores. `known` has a spare column.
        each = (torch.split(t, 1, 1) for t in (first, above, step.slots, entering))
        for drawn, least, planned, its in zip(*each, strict=True):
            chance = known[:, :capacity].cumsum(1)
            met = torch.searchsorted(chance, drawn * chance[:, -1:])
            slot = torch.where(known.gather(1, met) > least, met, planned)
            known.scatter_(1, slot, its)
            placed.append(slot)
        step.store_at(last_in_slot(torch.cat(placed, 1), capacity))


def _scores(step: Step) -> tuple[Tensor, Tensor]:
    """The scores of the examples of the batch, `[K, B]`, and of their mean gradient, `[K, 1]`."""
    compared = step.replays[-1]
    batch, others = step.x.shape[1], compared.x.shape[1]
    if not others:
        first = torch.full(step.y.shape[:2], FIRST, dtype=torch.float64, device=step.y.device)
        return first, first[:, :1]
    x, y = torch.cat([step.plain(), step.plain(compared)], 1), torch.cat([step.y, compared.y], 1)
    dots = step.model.gradient_dots(x, y).double()
    each = torch.arange(batch + others, device=y.device)
    norm = dots[:, each, each].clamp(min=TINY).sqrt()  # [K, B + n]
    among, between = dots[:, :batch, :batch], dots[:, :batch, batch:] / norm[:, None, batch:]
    size = among.mean((1, 2)).clamp(min=TINY).sqrt()  # of the mean gradient, [K]
    single = between / norm[:, :batch, None]
    whole = between.mean(1) / size[:, None]
    return single.amax(2) + 1, whole.amax(1, keepdim=True) + 1


FIRST = 0.1
TINY = 1e-24
