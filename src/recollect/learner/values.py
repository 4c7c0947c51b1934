"""Values that a learner estimates, and the scale in which its network learns them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast, final

import numpy as np
import torch
from torch import Tensor

from recollect.errors import DataError, InputError
from recollect.learner.value_record import ValueRecord

__all__ = ["Values", "read_batch"]

SAMPLE = 256
TRIMMED = 0.01  # the share of the farthest values that the deviation leaves out
FAR, SETTLED = 100.0, 32
LARGEST = 1e30


def read_batch(batch: bool | None, y_is_batch: bool, count: int, size: int) -> bool:
    """Whether x and y are batches, if x is one (None: it may be), and y looks like one."""
    several = y_is_batch and count == size if batch is None else batch
    if several and not y_is_batch:
        raise InputError(
            f"x has {count} examples, and y is the target of one: give a list of {count}, one for "
            f"each example"
        )
    if several and size != count:
        raise InputError(f"there are {size} targets for {count} examples")
    return several


@final
@dataclass(frozen=True, eq=False)
class Values:
    """The values of an example, `[D]`, with a mean and a deviation for each by which it is scaled.

    The scale is estimated from a sample of at most 256 examples, spread evenly over the stream:
    the median, and the root mean squared distance to it without the farthest 1 %. It is estimated
    anew when the number of examples has doubled, and among the first 32 also when one is far away
    (all of those count); the engine then changes the last layer and what
    is stored so that all predictions stay as they were. One value cannot move it far, and values
    that are more than 100 deviations away are left out, unless they come again and again: then
    the scale begins anew with them.

    >>> values = Values().with_new([(10.0,), (30.0,)], 0)
    >>> values.mean.tolist(), values.deviation.tolist(), len(values)
    ([20.0], [10.0], 1)
    >>> values.encode([(30.0,)], 1).tolist(), values.decode(torch.tensor([[1.0]]))
    ([[1.0]], array([30.]))
    """

    sample: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    stride: int = 1
    count: int = 0
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))
    deviation: np.ndarray = field(default_factory=lambda: np.ones(0))

    known: tuple[Hashable, ...] = ()
    fixed: bool = True

    def __len__(self) -> int:
        return len(self.mean)

    def __contains__(self, label: object) -> bool:
        return False

    def read(self, y: Any, batch: bool | None, count: int) -> tuple[list[Hashable], bool]:
        """The values of each example as a tuple, and whether y is a batch."""
        try:
            found = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
        except (TypeError, ValueError):  # lists of unequal length, or what cannot be an array
            found = np.array(None)
        if found.dtype.kind not in "biuf" or found.ndim > 2:
            raise InputError(f"with target='regression', y is a number or several, not {y!r:.60}")
        array = found.astype(np.float64)
        several = read_batch(batch, array.ndim > 0, count, len(array) if array.ndim else 0)
        rows = array.reshape(len(array) if several else 1, -1)
        if not np.isfinite(rows).all():
            raise InputError("a value to be learned is not finite (NaN or infinity)")
        if (np.abs(rows) > LARGEST).any():
            raise InputError(f"a value to be learned is beyond {LARGEST:g}: take other units")
        if not rows.shape[1] or (len(self) and rows.shape[1] != len(self)):
            raise InputError(
                f"an example has {rows.shape[1]} values to be learned, and the first had "
                f"{len(self) or 'some'}"
            )
        return [tuple(row) for row in rows.tolist()], several

    def group(self, answer: Hashable) -> Hashable:
        """All examples count alike."""
        return ""

    def far(self, answers: Sequence[Hashable]) -> dict[int, float]:
        """The rows whose values are more than 100 deviations away, and by how many."""
        return self._away(answers) if self.count >= SETTLED else {}

    def with_new(self, answers: Sequence[Hashable], most: int = 0) -> Values:
        """The values after these, with another scale if it was time for one."""
        rows = np.array(answers, dtype=np.float64)
        sample, stride, count = self.sample, self.stride, self.count
        again = bool(self.far(answers))
        early = 0 < count < SETTLED and bool(self._away(answers))
        if again or not count:
            sample, stride, count = rows[:0], 1, 0
        places = np.arange(count, count + len(rows))
        sample = np.concatenate([sample, rows[places % stride == 0]])
        while len(sample) > SAMPLE:
            sample, stride = sample[::2], stride * 2
        found = replace(self, sample=sample, stride=stride, count=count + len(rows))
        doubled = count.bit_length() < found.count.bit_length()
        if not (doubled or early):
            return found
        mean, deviation = _estimated(sample, self if len(self) else None)
        return replace(found, mean=mean, deviation=deviation)

    def encode(self, answers: Sequence[Hashable], outputs: int) -> np.ndarray:
        """The values in the scale of now, `[n, D]`."""
        return self._scaled(answers).astype(np.float32)

    def decode(self, scores: Tensor) -> np.ndarray:
        """Scores `[n, D]` in the user's units: `[n]`, or `[n, D]` where there are several."""
        found: np.ndarray = scores.detach().cpu().double().numpy() * self.deviation + self.mean
        return found[:, 0] if len(self) == 1 else found

    def shares(self, scores: Tensor) -> Tensor:
        """Refused: a network for values says nothing of their probabilities."""
        raise InputError("predict_proba is for classes and labels: with values, call predict")

    def guess(self, scores: Tensor | None, count: int) -> np.ndarray:
        """The values `[n, D]` that scores predict; NaN as long as there was nothing to learn."""
        if scores is None:
            return np.full((count, 1), np.nan)
        return self.decode(scores).reshape(count, -1)

    def guessed(self, predicted: Sequence[Hashable]) -> np.ndarray:
        """The values `[n, D]` that were predicted before."""
        return np.array(predicted, dtype=np.float64)

    def judged(
        self, record: ValueRecord, answers: Sequence[Hashable], y: np.ndarray, guess: np.ndarray
    ) -> ValueRecord:
        """The record after these values."""
        return record.after(np.array(answers, dtype=np.float64), guess)

    def change_to(self, other: Values) -> tuple[Tensor, Tensor] | None:
        """By what scores `[n, D]` are multiplied and added to in another scale; None if equal."""
        if self.mean is other.mean or not len(self):
            return None
        factor = self.deviation / other.deviation
        shift = (self.mean - other.mean) / other.deviation
        return torch.from_numpy(factor), torch.from_numpy(shift)

    def facts(self) -> dict[str, Any]:
        """What is saved as plain data."""
        arrays = {name: getattr(self, name).tolist() for name in ("sample", "mean", "deviation")}
        return {"values": {**arrays, "stride": self.stride, "count": self.count}}

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> Values:
        """The values that were saved by `facts`."""
        mean, deviation = (np.array(saved[n], dtype=np.float64) for n in ("mean", "deviation"))
        sample = np.array(saved["sample"], dtype=np.float64).reshape(-1, len(mean))
        stride, count = saved["stride"], saved["count"]
        sound = (
            mean.ndim == 1 and mean.shape == deviation.shape
            and bool(np.isfinite(mean).all() & (deviation > 0).all() & np.isfinite(sample).all())
            and type(stride) is int and stride >= 1 and type(count) is int and count >= 0
        )  # fmt: skip
        if not sound:
            raise DataError("the scale of its values contradicts itself")
        return cls(sample, stride, count, mean, deviation)

    def _away(self, answers: Sequence[Hashable]) -> dict[int, float]:
        away = np.abs(self._scaled(answers)).max(1)
        return {int(row): float(away[row]) for row in np.flatnonzero(away > FAR)}

    def _scaled(self, answers: Sequence[Hashable]) -> np.ndarray:
        rows = np.array(answers, dtype=np.float64)
        return cast(np.ndarray, (rows - self.mean) / self.deviation)


def _estimated(sample: np.ndarray, before: Values | None) -> tuple[np.ndarray, np.ndarray]:
    middle = np.median(sample, axis=0)
    away = np.sort(np.abs(sample - middle), axis=0)
    if len(away) >= SETTLED:
        away = away[: len(away) - math.ceil(TRIMMED * len(away))]
    deviation = np.sqrt(np.square(away).mean(0))
    # Values that are all alike say nothing of their spread.
    usual = before.deviation if before is not None else np.maximum(np.abs(middle), 1.0)
    tiny = np.finfo(np.float32).tiny
    return middle, np.where(deviation > tiny, deviation, usual)
