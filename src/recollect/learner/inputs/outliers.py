"""Outlier detection: find examples far outside the range of the stream so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from recollect.errors import DataError, InputError
from recollect.learner.inputs.feature_quantiles import Columns, smallest
from recollect.learner.inputs.magnitudes import RECENT, Magnitudes
from recollect.learner.inputs.unusual_labels import Seen, Unusual
from recollect.learner.targets.labels import decoded, encoded, no_class

LAST = 10
ON_OUTLIER = ("skip", "raise", "learn")
COUNTS = ("arrived", "left_out")
COLUMNS = ("lower", "high", "count", "balance", "bound")
VALUE = "value"  # the group under which outliers among regression targets are counted
NOT_FINITE = "it has values that are not finite (NaN or infinity)"


class RefusedExample(InputError):  # noqa: N818 - the name says what was refused
    """An example that is refused; `row` is its index in the batch."""

    def __init__(self, row: int, why: str, *, alone: bool = False) -> None:
        super().__init__(f"{'the example' if alone else f'example {row} of this batch'} {why}")
        self.row = row
        self.why = why


class Outlier(NamedTuple):
    """An example that was left out as an outlier: its number in the stream, from 0, and why.

    >>> from recollect import ER, MLP, Learner
    >>> learner = Learner(MLP(2, 1), ER())
    >>> _ = learner.observe([[1.0, 0.0], [float("nan"), 1.0]], ["a", "b"])
    >>> learner.outliers[-1].number, learner.metrics().left_out
    (1, 1)
    """

    number: int
    reason: str


class Watch(NamedTuple):
    """Running statistics of the examples of a stream, by which outliers are detected.

    An example is an outlier if its magnitude, the largest absolute value, exceeds a bound
    (`magnitudes`), or, for examples that are vectors of features, if a feature exceeds the bound
    of its column (`columns`). It is learned nevertheless if its label has had such examples
    repeatedly (`unusual`). Values that most of the recent examples have are never outliers.

    No single value moves the statistics far, whatever its size. They depend on the examples alone,
    and are saved.

    A batch whose values are all within the bounds has no outliers, so that `settled` can add it to
    the statistics later, while a device computes. Until then its magnitudes `[n, F]` are in
    `later`, with the largest of each example, and whether examples are vectors of features.
    """

    magnitudes: Magnitudes
    columns: Columns
    unusual: Unusual
    arrived: int = 0
    left_out: int = 0
    last: tuple[Outlier, ...] = ()
    later: tuple[np.ndarray, np.ndarray, bool] | None = None

    @classmethod
    def empty(cls) -> Watch:
        """Create the statistics before the first example."""
        return cls(Magnitudes.empty(), Columns.empty(0), Unusual())

    def judge(
        self,
        x: Tensor,
        labels: Sequence[Hashable],
        learned: Callable[[Hashable], int],
        name: Callable[[int], str] = "feature {}".format,
    ) -> tuple[Watch, dict[int, str]]:
        """Update with a batch `[n, ...]`, and return the rows to leave out with the reasons.

        Args:
            x: The batch.
            labels: The labels of its rows.
            learned: Returns how many examples of a label have been learned.
            name: Returns the name of a feature by its index, for the reasons.
        """
        if not x.is_floating_point():
            return self, {}
        now, vectors = self.settled(), x.dim() == 2
        cells = np.abs(x.cpu().float().numpy().reshape(len(x), -1))
        plausible = now.magnitudes.bound
        if vectors:
            plausible = min(plausible, now.columns.sized(cells.shape[1]).least)
        sizes: np.ndarray = cells.max(1)
        if float(sizes.max()) <= plausible:
            return now._replace(later=(cells, sizes, vectors)), {}
        return now._judged(cells, vectors, labels, learned, name)

    def settled(self) -> Watch:
        """Return the statistics with the batch that has not been added yet."""
        if self.later is None:
            return self
        cells, sizes, vectors = self.later
        top = float(sizes.max())
        magnitudes, columns = self.magnitudes.after(sizes, top), self.columns
        if vectors:
            columns, _ = columns.after(cells, top, None, magnitudes.renewed)
        parts = magnitudes, columns, self.unusual, self.arrived, self.left_out, self.last
        return Watch(*parts)

    def _judged(
        self,
        cells: np.ndarray,
        vectors: bool,
        labels: Sequence[Hashable],
        learned: Callable[[Hashable], int],
        name: Callable[[int], str],
    ) -> tuple[Watch, dict[int, str]]:
        sizes: np.ndarray = cells.max(1)
        top, numbers, reasons = float(sizes.max()), np.arange(len(cells)), dict[int, str]()
        if not math.isfinite(top):
            finite = np.isfinite(sizes)
            cells, sizes, numbers = cells[finite], sizes[finite], np.flatnonzero(finite)
            top = float(sizes.max(initial=0))
            reasons = dict.fromkeys(np.flatnonzero(~finite).tolist(), NOT_FINITE)
        magnitudes, columns, odd = self.magnitudes.after(sizes, top), self.columns, None
        # The bound may exceed the range of float32.
        far = sizes > np.float64(magnitudes.bound) if top > magnitudes.bound else None
        if vectors:
            columns, odd = columns.after(cells, top, far, magnitudes.renewed)
        now = Watch(magnitudes, columns, self.unusual, self.arrived, self.left_out, self.last)
        if odd is None and far is None:
            return now, reasons
        each = [which for which in (far, None if odd is None else odd.any(1)) if which is not None]
        suspect = np.flatnonzero(np.logical_or.reduce(each))
        if len(suspect):
            sized = [(labels[numbers[row]], float(sizes[row])) for row in suspect]
            unusual, accepted = self.unusual.after(sized, learned)
            for row in suspect[~np.array(accepted)]:
                why = now._reason(cells[row], None if odd is None else odd[row], name)
                reasons[int(numbers[row])] = why
            now = now._replace(unusual=unusual)
        return now, reasons

    def judge_values(
        self, far: Mapping[int, float], learned: Callable[[Hashable], int]
    ) -> tuple[Watch, dict[int, str]]:
        """Update with distant regression targets by row, and return which to leave out, and why."""
        if not far:
            return self, {}
        unusual, accepted = self.unusual.after([(VALUE, size) for size in far.values()], learned)
        why = "a target value is {:.3g} standard deviations away from those so far"
        reasons = {
            row: why.format(size)
            for (row, size), good in zip(far.items(), accepted, strict=True)
            if not good
        }
        return self._replace(unusual=unusual), reasons

    def after(self, size: int, reasons: Mapping[int, str]) -> Watch:
        """Count a batch of `size` examples and the rows left out of it."""
        if not reasons:
            return self._replace(arrived=self.arrived + size)
        new = [Outlier(self.arrived + row, reasons[row]) for row in sorted(reasons)]
        left_out, last = self.left_out + len(new), (*self.last, *new)[-LAST:]
        return self._replace(arrived=self.arrived + size, left_out=left_out, last=last)

    def _reason(self, cells: np.ndarray, odd: np.ndarray | None, name: Callable[[int], str]) -> str:
        if odd is not None and odd.any():
            feature = int(odd.argmax())
            bound = float(self.columns.bound[feature])
        else:
            feature, bound = int(cells.argmax()), self.magnitudes.bound
        return (
            f"{name(feature)} has the magnitude {cells[feature]:.3g}, and the largest plausible "
            f"one after the examples so far is {bound:.3g}"
        )

    def facts(self) -> dict[str, Any]:
        """Return the plain data to be saved."""
        return {
            **{name: getattr(self, name) for name in COUNTS},
            "last": [[outlier.number, outlier.reason] for outlier in self.last],
            **{name: getattr(self.magnitudes, name) for name in ("counted", "fresh", "bound")},
            **{name: getattr(self.columns, name) for name in ("examples", "moved")},
            "unusual": [
                [encoded(label), *seen[:-1], list(seen.sizes)]
                for label, seen in self.unusual.labels.items()
                if _can_be_saved(label)
            ],
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors to be saved."""
        columns = {name: getattr(self.columns, name) for name in COLUMNS}
        arrays = {"recent": self.magnitudes.recent, **columns}
        return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}

    @classmethod
    def restored(cls, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Watch:
        """Restore the statistics from `facts` and `tensors`."""
        recent = tensors["recent"].numpy().copy()
        columns = {name: tensors[name].numpy() for name in COLUMNS}
        counts = [facts[name] for name in (*COUNTS, "counted", "fresh", "examples", "moved")]
        shapes = {column.shape for column in columns.values()}
        sound = (
            all(type(count) is int and 0 <= count < 2**63 for count in counts)
            and type(facts["bound"]) is float
            and facts["bound"] >= 0
            and recent.shape == (RECENT,)
            and recent.dtype == np.float32
            and len(shapes) == 1
            and len(next(iter(shapes))) == 1
            and all(c.dtype == np.float64 and bool((c >= 0).all()) for c in columns.values())
        )
        if not sound:
            raise DataError("the saved outlier statistics are invalid")
        unusual = {
            decoded(label): Seen(int(start), int(far), int(accepted), tuple(map(float, sizes)))
            for label, start, far, accepted, sizes in facts["unusual"]
        }
        return cls(
            Magnitudes(recent, facts["counted"], facts["fresh"], facts["bound"]),
            Columns(
                np.stack([columns["lower"], columns["high"]]),
                columns["count"].copy(),
                columns["balance"].copy(),
                columns["bound"].copy(),
                facts["examples"],
                facts["moved"],
                smallest(columns["bound"]),
            ),
            Unusual(unusual),
            facts["arrived"],
            facts["left_out"],
            tuple(Outlier(int(number), str(reason)) for number, reason in facts["last"]),
        )


def _can_be_saved(label: Hashable) -> bool:
    """Whether a label can be written to a file; one that was never learned is unchecked."""
    try:
        return no_class(label) is None and encoded(label) is not None
    except InputError:
        return False
