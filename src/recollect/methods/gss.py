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
from recollect.methods.boundary import About
from recollect.methods.method import Method
from recollect.methods.step import Step

__all__ = ["GSS"]


@dataclass(frozen=True)
class GSS(Method):
    """Keeps examples whose gradients point in different directions.

    The score of a gradient is its largest cosine similarity, plus one, with those of `gmbs` random
    memories. What arrives is judged as a whole: while there is room it is kept with that score.
    When the memory is full and the whole disagrees with all of them (score below 1), each of its
    examples meets a memory, drawn in proportion to the memories' scores C, and replaces it with
    probability C / (C + its own score). Training is that of ER, `nb` times for every batch.

    `recollect reproduce seq-mnist --methods gss` makes its rows of the paper's table.

    >>> GSS(gmbs=64, nb=2).draws_per_step()
    3
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
        """Replay as ER does, then choose what to keep; the loss `[K]`."""
        for _ in range(self.nb):
            past = step.draw()
            (logits,) = step.net(torch.cat([step.x, past.x], 1))
            loss = cross_entropy(logits, torch.cat([step.y, past.y], 1))
            step.descend(step.gradient(loss))
        self._keep(step)
        return loss.detach()

    def _keep(self, step: Step) -> None:
        known, capacity = step.own["score"], step.own["score"].shape[1] - 1
        whole, score = _scores(step)
        chance = known[:, :capacity].cumsum(1)
        first, second = uniform(step.luck).unbind(2)  # [K, B] each
        met = torch.searchsorted(chance, first * chance[:, -1:]).clamp(max=capacity - 1)
        theirs = known.gather(1, met)
        wins = (whole < 1) & (second < theirs / (theirs + score))
        full = step.slots == capacity
        slot = torch.where(full, torch.where(wins, met, capacity), step.slots)
        slot = later_stays(slot, capacity)
        known.scatter_(1, slot, torch.where(full, score, whole))
        step.place(slot)


def _scores(step: Step) -> tuple[Tensor, Tensor]:
    """The score of the batch as a whole, `[K, 1]`, and of each of its examples, `[K, B]`."""
    compared = step.replays[-1]
    batch, others = step.x.shape[1], compared.x.shape[1]
    if not others:
        first = torch.full(step.y.shape, FIRST, dtype=torch.float64, device=step.y.device)
        return first[:, :1], first
    x, y = torch.cat([step.x, compared.x], 1), torch.cat([step.y, compared.y], 1)
    dots = step.gradient_dots(x, y).double()
    norm = dots.diagonal(dim1=1, dim2=2).clamp(min=TINY).sqrt()  # [K, B + n]
    among, between = dots[:, :batch, :batch], dots[:, :batch, batch:] / norm[:, None, batch:]
    size = among.mean((1, 2)).clamp(min=TINY).sqrt()  # of the mean gradient, [K]
    whole = between.mean(1) / size[:, None]
    single = between / norm[:, :batch, None]
    return whole.amax(1, keepdim=True) + 1, single.amax(2) + 1


FIRST = 0.1
TINY = 1e-24
