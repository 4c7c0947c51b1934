"""MNIST-360: two digits at a time, slowly turning, without any boundary that a method could use."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, final

import torch
from torch import Tensor

from recollect.core.images import Images
from recollect.core.random import Purpose, bits, permute
from recollect.errors import InputError
from recollect.streams.copies import Copies, take
from recollect.streams.data import Dataset
from recollect.streams.pixels import rotate
from recollect.streams.stream import Batch, Setting

__all__ = ["DIGITS", "ROUNDS", "Mnist360"]

DIGITS = 9
ROUNDS = 3
GROUPS = 2 * ROUNDS


@final
@dataclass(frozen=True, eq=False)
class Mnist360:
    """The paper's general stream: digits 0 to 8 in pairs, three rounds, each digit turning once.

    Every training example arrives exactly once. The pairs (0, 1), (1, 2), ..., (8, 0) follow each
    other in three rounds; a digit's examples are split at random into six groups, one for each
    time that it appears. Within a pair the digits alternate in proportion to their groups, so that
    batches of any size hold both in the same proportion. Angles are counter-clockwise and start at
    c = 0: the c-th of the n training examples of digit d is turned by 360 c / n + (d - 1) offset
    degrees, and the c-th of the n test examples by 360 c / n.

    `offset` is 60 as in the paper's code, which its figures belong to; its appendix prints 30.

    >>> from recollect.streams import benchmark
    >>> stream = benchmark("digits-360").stream()
    >>> stream.tasks, stream.boundaries, sum(stream.parts(0))
    (1, False, 1294)
    """

    dataset: Dataset = field(repr=False)
    name: str = "mnist-360"
    setting: Setting = "general"
    boundaries: bool = False
    tasks: int = 1
    images: Images | None = None
    offset: float = 60.0

    def __post_init__(self) -> None:
        counts = torch.bincount(self.dataset.train_y, minlength=DIGITS)[:DIGITS]
        if int(counts.min()) < GROUPS:
            raise InputError(
                f"{self.name} needs at least {GROUPS} training examples of each digit from 0 to "
                f"{DIGITS - 1}, but the data set {self.dataset.name!r} has {counts.tolist()}"
            )

    @property
    def classes(self) -> int:
        """The size of the head: the data set's, as the paper keeps its network."""
        return self.dataset.classes

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one image."""
        return tuple(self.dataset.train_x.shape[1:])

    @property
    def dtype(self) -> torch.dtype:
        """How one image is stored."""
        return self.dataset.train_x.dtype

    def parts(self, task: int) -> tuple[int, ...]:
        """How many examples each of the 27 pairs has; no batch spans two of them."""
        return self._schedule.parts

    def order(self, seeds: Tensor, task: int, epoch: int, start: int, stop: int) -> Tensor:
        """Examples are numbered as they arrive: start..stop-1, `[K, stop-start]`."""
        return torch.arange(start, stop, device=seeds.device).expand(len(seeds), -1)

    def pick(self, seeds: Tensor, task: int | Tensor, index: Tensor) -> Batch:
        """The examples that arrive in positions `index` `[K, n]`, rotated as they arrive."""
        images, ids, starts, counts, digits, turns = self._train.on(index.device)
        digit, turn = digits[index], turns[index]
        key = bits(seeds[:, None], Purpose.GROUP, digit)
        chosen = ids[starts[digit] + permute(key, turn, counts[digit])]
        # The runs of a fleet ask for the same positions, and the position alone decides the angle.
        alike = bool((index == index[:1]).all())
        runs = slice(0, 1) if alike else slice(None)
        angles = _angles(digit[runs], turn[runs], counts, self.offset)
        return Batch(rotate(take(images, chosen), angles), digit)

    def test(self, seeds: Tensor, task: int) -> Batch:
        """The test set, x `[1, n, *shape]`, y `[1, n]`: each digit turns once, without offset."""
        x, y = self._test.on(seeds.device)
        return Batch(x, y)

    def task_classes(self, task: int) -> tuple[int, ...]:
        """The digits 0 to 8."""
        return tuple(range(DIGITS))

    @cached_property
    def _schedule(self) -> _Schedule:
        return _schedule(torch.bincount(self.dataset.train_y)[:DIGITS].tolist())

    @cached_property
    def _train(self) -> Copies:
        labels = self.dataset.train_y
        counts = torch.bincount(labels)[:DIGITS]
        ids = labels.sort(stable=True).indices
        plan = self._schedule
        images, starts = self.dataset.train_x, counts.cumsum(0) - counts
        return Copies(images, ids, starts, counts, plan.digits, plan.turns)

    @cached_property
    def _test(self) -> Copies:
        ids = (self.dataset.test_y < DIGITS).nonzero().flatten()
        y = self.dataset.test_y[ids]
        turns = torch.empty_like(y)
        for digit in range(DIGITS):
            here = y == digit
            turns[here] = torch.arange(int(here.sum()))
        angles = _angles(y, turns, torch.bincount(y, minlength=DIGITS), 0.0)
        return Copies(rotate(self.dataset.test_x[ids][None], angles[None]), y[None])


class _Schedule(NamedTuple):
    """What arrives in each position: which digit `[N]`, and how many of it came before `[N]`."""

    digits: Tensor
    turns: Tensor
    parts: tuple[int, ...]


def _schedule(counts: list[int]) -> _Schedule:
    """The arrival plan for digits with these numbers of examples; the same for every seed."""
    groups = {digit: iter(_split_evenly(count)) for digit, count in enumerate(counts)}
    so_far = [0] * DIGITS
    digits, turns, parts = [], [], []
    for _ in range(ROUNDS):
        for first in range(DIGITS):
            second = (first + 1) % DIGITS
            sizes = next(groups[first]), next(groups[second])
            is_first = _interleaved(*sizes)
            turn = torch.where(
                is_first,
                so_far[first] + is_first.long().cumsum(0) - 1,
                so_far[second] + (~is_first).long().cumsum(0) - 1,
            )
            digits.append(torch.where(is_first, first, second))
            turns.append(turn)
            parts.append(sum(sizes))
            so_far[first] += sizes[0]
            so_far[second] += sizes[1]
    return _Schedule(torch.cat(digits), torch.cat(turns), tuple(parts))


def _split_evenly(count: int) -> list[int]:
    """The sizes of six groups that differ by one at most."""
    return [(count + GROUPS - 1 - group) // GROUPS for group in range(GROUPS)]


def _interleaved(first: int, second: int) -> Tensor:
    """Whether each position holds the first kind, such that every prefix is in proportion."""
    total = first + second
    so_far = (torch.arange(total + 1) * 2 * first + total) // (2 * total)
    return so_far.diff() == 1


def _angles(digit: Tensor, turn: Tensor, counts: Tensor, offset: float) -> Tensor:
    """The angles of examples in radians, for an offset in degrees; the arithmetic is the CPU's."""
    digit, turn, count = digit.cpu(), turn.cpu(), counts.cpu()[digit.cpu()]
    start = (digit - 1).double() * math.radians(offset)
    return 2 * math.pi * turn.double() / count + start
