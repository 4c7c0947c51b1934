"""GSS: Gradient-based Sample Selection, the greedy variant (Aljundi et al., 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from recollect.core.losses import cross_entropy
from recollect.core.random import uniform
from recollect.memory import Chosen, Rule
from recollect.memory.rule import later_stays
from recollect.methods.method import About, Method, Step

__all__ = ["GSS"]


@dataclass(frozen=True)
class GSS(Method):
    """Keeps examples whose gradients point in different directions.

    The score of an example is its largest cosine similarity, plus one, with `gmbs` random
    memories. When the memory is full, an example that disagrees with them all (score below 1)
    meets a memory, drawn in proportion to the memories' scores C, and replaces it with probability
    C / (C + its own score). Training is that of ER, `nb` times for every batch.

    `recollect reproduce seq-mnist --methods gss` makes its rows of the paper's table.
    """

    gmbs: int = 10
    nb: int = 1

    name: ClassVar[str] = "gss"
    title: ClassVar[str] = "GSS"
    remembers: ClassVar[tuple[str, ...]] = ("x", "y")
    shaping: ClassVar[tuple[str, ...]] = ("gmbs", "nb")
    luck: ClassVar[int] = 2

    def draws_per_step(self) -> int:
        """A replay for every repetition, and the memories to compare with."""
        return self.nb + 1

    def rule(self, capacity: int) -> Rule:
        """In order while there is room, then where the scores say."""
        return Chosen(capacity, self.gmbs)

    def own(self, about: About) -> dict[str, Tensor]:
        """The score of every memory, and a spare one for what is not kept."""
        return {"score": torch.zeros(about.runs, about.capacity + 1, dtype=torch.float64)}

    def learn(self, step: Step) -> Tensor:
        """Choose what to keep, then replay as ER does; the loss `[K]`."""
        self._keep(step)
        for _ in range(self.nb):
            past = step.draw()
            (logits,) = step.net(torch.cat([step.x, past.x], 1))
            loss = cross_entropy(logits, torch.cat([step.y, past.y], 1))
            step.descend(step.gradient(loss))
        return loss.detach()

    def _keep(self, step: Step) -> None:
        known, capacity = step.own["score"], step.own["score"].shape[1] - 1
        score = _score(step)
        chance = known[:, :capacity].cumsum(1)
        first, second = uniform(step.luck).unbind(2)  # [K, B] each
        met = torch.searchsorted(chance, first * chance[:, -1:]).clamp(max=capacity - 1)
        theirs = known.gather(1, met)
        wins = (score < 1) & (second < theirs / (theirs + score))
        full = step.slots == capacity
        slot = torch.where(full, torch.where(wins, met, capacity), step.slots)
        slot = later_stays(slot, capacity)
        known.scatter_(1, slot, score)
        step.place(slot)


def _score(step: Step) -> Tensor:
    """The score of every example of the batch, `[K, B]`."""
    compared = step.replays[-1]
    batch, others = step.x.shape[1], compared.x.shape[1]
    if not others:
        return torch.full(step.y.shape, FIRST, dtype=torch.float64, device=step.y.device)
    x, y = torch.cat([step.x, compared.x], 1), torch.cat([step.y, compared.y], 1)
    dots = step.gradient_dots(x, y).double()
    norm = dots.diagonal(dim1=1, dim2=2).clamp(min=TINY).sqrt()  # [K, B + n]
    between = dots[:, :batch, batch:] / (norm[:, :batch, None] * norm[:, None, batch:])
    return between.amax(2) + 1


FIRST = 0.1
TINY = 1e-24
