"""MNIST-360: pairs of slowly rotating digits, without task boundaries."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import torch
from torch import Tensor

from recollect.core.images import Images
from recollect.core.random import Purpose, bits, permute
from recollect.errors import InputError
from recollect.streams.data import Dataset
from recollect.streams.pixels import rotate
from recollect.streams.stream import Batch, Copies, Setting, take

DIGITS = 9
ROUNDS = 3
GROUPS = 2 * ROUNDS


@final
@dataclass(frozen=True, eq=False)
class Mnist360:
    """MNIST-360, the paper's general continual learning stream of rotating digits in pairs.

    Every training example arrives exactly once. The pairs (0, 1), (1, 2), ..., (8, 0) follow each
    other in three rounds; the examples of a digit are split at random into six groups, one for each
    of its appearances. Within a pair the digits alternate in proportion to the sizes of their
    groups, so that batches of any size have both in the same proportion. Angles are
    counter-clockwise and start at c = 0: the c-th of the n training examples of digit d is rotated
    by 360 c / n + (d - 1) offset degrees, and the c-th of the n test examples by 360 c / n.

    `offset` is 60 as in the paper's code, which the published results belong to; its appendix
    states 30.

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
        if int(self._counts.min()) < GROUPS:
            raise InputError(
                f"{self.name} needs at least {GROUPS} training examples of each digit from 0 to "
                f"{DIGITS - 1}, but the data set {self.dataset.name!r} has {self._counts.tolist()}"
            )

    @property
    def classes(self) -> int:
        """Number of network outputs: that of the data set, as in the paper."""
        return self.dataset.classes

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one image."""
        return tuple(self.dataset.train_x.shape[1:])

    @property
    def dtype(self) -> torch.dtype:
        """Type in which images are stored."""
        return self.dataset.train_x.dtype

    def parts(self, task: int) -> tuple[int, ...]:
        """Number of examples of each of the 27 pairs; no batch spans two of them."""
        return tuple(map(len, self._arrivals))

    def order(self, seeds: Tensor, task: int, epoch: int, start: int, stop: int) -> Tensor:
        """Return start..stop-1, `[K, stop-start]`: examples are numbered in order of arrival."""
        return torch.arange(start, stop, device=seeds.device).expand(len(seeds), -1)

    def pick(self, seeds: Tensor, task: int | Tensor, index: Tensor) -> Batch:
        """Return the rotated examples that arrive in positions `index` `[K, n]`."""
        images, ids, starts, counts, digits, turns = self._train.on(index.device)
        digit, turn = digits[index], turns[index]
        key = bits(seeds[:, None], Purpose.GROUP, digit)
        chosen = ids[starts[digit] + permute(key, turn, counts[digit])]
        # All runs of a fleet request the same positions, and these determine the angles.
        alike = bool((index == index[:1]).all())
        runs = slice(0, 1) if alike else slice(None)
        angles = _angles(digit[runs], turn[runs], counts, self.offset)
        return Batch(rotate(take(images, chosen), angles), digit)

    def test(self, seeds: Tensor, task: int) -> Batch:
        """Return the test set, x `[1, n, *shape]`, y `[1, n]`: each digit rotates once."""
        return Batch(*self._test.on(seeds.device))

    def task_classes(self, task: int) -> tuple[int, ...]:
        """Return the digits 0 to 8."""
        return tuple(range(DIGITS))

    @cached_property
    def _arrivals(self) -> list[Tensor]:
        """Digits that arrive in each of the 27 pairs; the same for every seed."""
        # The sizes of the six groups of a digit differ by at most one.
        groups = [
            iter([(count + GROUPS - 1 - group) // GROUPS for group in range(GROUPS)])
            for count in self._counts.tolist()
        ]
        pairs = []
        for first in ROUNDS * [*range(DIGITS)]:
            second = (first + 1) % DIGITS
            is_first = _interleaved(next(groups[first]), next(groups[second]))
            pairs.append(torch.where(is_first, first, second))
        return pairs

    @cached_property
    def _counts(self) -> Tensor:
        return torch.bincount(self.dataset.train_y, minlength=DIGITS)[:DIGITS]

    @cached_property
    def _train(self) -> Copies:
        ids = self.dataset.train_y.sort(stable=True).indices
        starts, digits = self._counts.cumsum(0) - self._counts, torch.cat(self._arrivals)
        return Copies(self.dataset.train_x, ids, starts, self._counts, digits, _turns(digits))

    @cached_property
    def _test(self) -> Copies:
        ids = (self.dataset.test_y < DIGITS).nonzero().flatten()
        y = self.dataset.test_y[ids]
        angles = _angles(y, _turns(y), torch.bincount(y, minlength=DIGITS), 0.0)
        return Copies(rotate(self.dataset.test_x[ids][None], angles[None]), y[None])


def _turns(digits: Tensor) -> Tensor:
    """Count, for each position, the earlier examples of the same digit."""
    turns = torch.empty_like(digits)
    for digit in range(DIGITS):
        here = digits == digit
        turns[here] = torch.arange(int(here.sum()))
    return turns


def _interleaved(first: int, second: int) -> Tensor:
    """Interleave two kinds in proportion: True where a position has the first kind."""
    total = first + second
    so_far = (torch.arange(total + 1) * 2 * first + total) // (2 * total)
    return so_far.diff() == 1


def _angles(digit: Tensor, turn: Tensor, counts: Tensor, offset: float) -> Tensor:
    """Angles of examples in radians, for an offset in degrees, computed on the CPU."""
    digit, turn, count = digit.cpu(), turn.cpu(), counts.cpu()[digit.cpu()]
    start = (digit - 1).double() * math.radians(offset)
    return 2 * math.pi * turn.double() / count + start
