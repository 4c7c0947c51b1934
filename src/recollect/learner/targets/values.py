"""Regression targets, and the running scale by which they are standardised."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast, final

import numpy as np
import torch
from torch import Tensor

from recollect.errors import DataError, InputError
from recollect.learner.monitoring.value_record import ValueRecord
from recollect.learner.targets.labels import not_predicted

SAMPLE = 256
TRIMMED = 0.01  # fraction of the most distant values that the deviation ignores
FAR, SETTLED = 100.0, 32
LARGEST = 1e30


def read_batch(batch: bool | None, y_is_batch: bool, count: int, size: int) -> bool:
    """Decide whether x and y are batches.

    Args:
        batch: Whether x is a batch, or None if that depends on y.
        y_is_batch: Whether y has the form of a batch.
        count: Number of rows of x.
        size: Number of rows of y.
    """
    several = y_is_batch and count == size if batch is None else batch
    if several and not y_is_batch:
        raise InputError(
            f"x has {count} examples, but y is the target of one: give a list of {count} targets, "
            f"one for each example"
        )
    if several and size != count:
        raise InputError(f"y has {size} targets, but x has {count} examples: give one for each")
    return several


@final
@dataclass(frozen=True, eq=False)
class Values:
    """Regression targets, `[D]` per example, with a mean and deviation for standardisation.

    The scale is estimated from a sample of at most 256 examples, spread evenly over the stream:
    the median, and the root mean squared distance to it without the most distant 1 %. It is
    re-estimated whenever the number of examples has doubled, and among the first 32 examples also
    when one is far off (then without trimming). The engine then rescales the last layer and the
    stored targets so that predictions do not change.

    A single value cannot move the scale far. Values more than 100 deviations away are left out,
    unless they occur repeatedly: then the scale is restarted from them.

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
        """Parse y into a tuple of numbers per example; also return whether it is a batch."""
        try:
            found = y.detach().cpu() if isinstance(y, Tensor) else np.asarray(y)
            if isinstance(found, Tensor):  # NumPy has no bfloat16
                found = (found.float() if found.dtype == torch.bfloat16 else found).numpy()
        except (TypeError, ValueError):  # ragged lists, or objects that are not arrays
            found = np.array(None)
        if found.dtype.kind not in "biuf" or found.ndim > 2:
            raise InputError(
                f"with target='regression', y must be one or several numbers for each example, not "
                f"{y!r:.60}"
            )
        array = found.astype(np.float64)
        if batch is None and array.ndim == 2:
            batch = True
        several = read_batch(batch, array.ndim > 0, count, len(array) if array.ndim else 0)
        if not several and array.ndim == 2 and len(array) != 1:
            raise InputError(f"y has {len(array)} targets, but x is one example")
        rows = array.reshape(len(array) if several else 1, -1)
        if not np.isfinite(rows).all():
            raise InputError(
                "a target value is not finite (NaN or infinity): drop such examples before you "
                "observe them"
            )
        if (np.abs(rows) > LARGEST).any():
            raise InputError(f"a target value is larger than {LARGEST:g}: use another unit")
        if not rows.shape[1] or (len(self) and rows.shape[1] != len(self)):
            raise InputError(
                f"an example has {rows.shape[1]} target values, and must have "
                f"{f'{len(self)} as the first one had' if len(self) else 'at least one'}"
            )
        return [tuple(row) for row in rows.tolist()], several

    def group(self, answer: Hashable) -> Hashable:
        """Return one group for all examples."""
        return ""

    def far(self, answers: Sequence[Hashable]) -> dict[int, float]:
        """Return the rows more than 100 deviations away, and by how many deviations."""
        return self._away(answers) if self.count >= SETTLED else {}

    def with_new(self, answers: Sequence[Hashable], most: int = 0) -> Values:
        """Return the targets after a batch, with a new scale if an estimate is due."""
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
        """Standardise values with the current scale, `[n, D]`."""
        return self._scaled(answers).astype(np.float32)

    def decode(self, scores: Tensor) -> np.ndarray:
        """Convert outputs `[n, D]` to the units of y: `[n]`, or `[n, D]` if D > 1."""
        found: np.ndarray = scores.detach().cpu().double().numpy() * self.deviation + self.mean
        return found[:, 0] if len(self) == 1 else found

    def shares(self, scores: Tensor) -> Tensor:
        """Raise an `InputError`: regression has no probabilities."""
        raise InputError(
            "predict_proba is not available with target='regression': call predict instead"
        )

    def guess(self, scores: Tensor | None, count: int) -> np.ndarray:
        """Return the predicted values `[n, D]`; NaN if nothing has been learned."""
        if scores is None:
            return np.full((count, 1), np.nan)
        return self.decode(scores).reshape(count, -1)

    def predictions(self, predicted: Any, several: bool, count: int) -> list[Hashable]:
        """Parse the values that `predict` returned, a tuple per example; NaN for None."""
        unknown = [math.nan] * len(self)
        try:
            each = list(predicted) if several else [predicted]
            rows = [np.ravel(unknown if one is None else one).astype(np.float64) for one in each]
        except (TypeError, ValueError):
            rows = []
        if [row.shape for row in rows] != [(len(self),)] * count:
            raise not_predicted(predicted, several, count)
        return [tuple(row.tolist()) for row in rows]

    def guessed(self, predicted: Sequence[Hashable]) -> np.ndarray:
        """Convert earlier predictions to an array `[n, D]`."""
        return np.array(predicted, dtype=np.float64)

    def judged(
        self, record: ValueRecord, answers: Sequence[Hashable], y: np.ndarray, guess: np.ndarray
    ) -> ValueRecord:
        """Return the record after evaluating predictions."""
        return record.after(np.array(answers, dtype=np.float64), guess)

    def change_to(self, other: Values) -> tuple[Tensor, Tensor] | None:
        """Return the factor and shift `[D]` from this scale to another; None if equal."""
        if self.mean is other.mean or not len(self):
            return None
        factor = self.deviation / other.deviation
        shift = (self.mean - other.mean) / other.deviation
        return torch.from_numpy(factor), torch.from_numpy(shift)

    def facts(self) -> dict[str, Any]:
        """Return the plain data to be saved."""
        arrays = {name: getattr(self, name).tolist() for name in ("sample", "mean", "deviation")}
        return {"values": {**arrays, "stride": self.stride, "count": self.count}}

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> Values:
        """Restore the targets from the data of `facts`."""
        mean, deviation = (np.array(saved[n], dtype=np.float64) for n in ("mean", "deviation"))
        sample = np.array(saved["sample"], dtype=np.float64).reshape(-1, len(mean))
        stride, count = saved["stride"], saved["count"]
        sound = (
            mean.ndim == 1 and mean.shape == deviation.shape
            and bool(np.isfinite(mean).all() & (deviation > 0).all() & np.isfinite(sample).all())
            and type(stride) is int and stride >= 1 and type(count) is int and count >= 0
        )  # fmt: skip
        if not sound:
            raise DataError("the saved scale of the regression targets is invalid")
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
    # Equal values have no spread to estimate.
    usual = before.deviation if before is not None else np.maximum(np.abs(middle), 1.0)
    tiny = np.finfo(np.float32).tiny
    return middle, np.where(deviation > tiny, deviation, usual)
