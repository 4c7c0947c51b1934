"""Tell which examples of a batch lie too far outside of what the stream has shown so far."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from recollect.errors import DataError, InputError
from recollect.learner.columns import Columns
from recollect.learner.labels import decoded, encoded, no_class
from recollect.learner.magnitudes import RECENT, Magnitudes
from recollect.learner.unusual import Seen, Unusual

__all__ = ["NOT_FINITE", "ON_OUTLIER", "Outlier", "Watch"]

LAST = 10
ON_OUTLIER = ("skip", "raise", "learn")
COUNTS = ("arrived", "left_out")
COLUMNS = ("lower", "high", "count", "balance", "bound")
VALUE = "value"  # what values count for that are far outside
NOT_FINITE = "it has values that are not finite (NaN or infinity)"


class Outlier(NamedTuple):
    """An example that was left out: its number in the stream, from 0, and the reason.

    >>> from recollect import ER, MLP, Learner
    >>> learner = Learner(MLP(2, 1), ER())
    >>> _ = learner.observe([[1.0, 0.0], [float("nan"), 1.0]], ["a", "b"])
    >>> learner.outliers[-1].number, learner.metrics().left_out
    (1, 1)
    """

    number: int
    reason: str


@final
@dataclass(frozen=True)
class Watch:
    """What the examples of a stream looked like so far, and which were left out.

    An example is far outside if its magnitude, the largest absolute value, is (`magnitudes`), or,
    where an example is a row of features, that of one feature compared with its column
    (`columns`). It is learned nevertheless if its label has such examples again and again
    (`unusual`), and what most of the recent examples show is not far outside.

    No single value moves any of this far, whatever its size. It depends on the examples alone, and
    all of it is saved.
    """

    magnitudes: Magnitudes
    columns: Columns
    unusual: Unusual
    arrived: int = 0
    left_out: int = 0
    last: tuple[Outlier, ...] = ()

    @classmethod
    def empty(cls) -> Watch:
        """The watch before the first example."""
        return cls(Magnitudes.empty(), Columns.empty(0), Unusual())

    def judge(
        self,
        x: Tensor,
        labels: Sequence[Hashable],
        learned: Callable[[Hashable], int],
        name: Callable[[int], str] = "feature {}".format,
    ) -> tuple[Watch, dict[int, str]]:
        """The watch after a batch `[n, ...]`, and why which of its rows are to be left out.

        `learned` says how many examples of a label were learned so far, and `name` what the
        numbers of an example are called.
        """
        if not x.is_floating_point():
            return self, {}
        cells = np.abs(x.detach().cpu().float().numpy().reshape(len(x), -1))
        sizes: np.ndarray = cells.max(1)
        finite, reasons = np.isfinite(sizes), dict[int, str]()
        if not finite.all():
            cells, sizes = cells[finite], sizes[finite]
            reasons = dict.fromkeys(np.flatnonzero(~finite).tolist(), NOT_FINITE)
        magnitudes, columns, odd = self.magnitudes.after(sizes), self.columns, None
        far = sizes > np.float64(magnitudes.bound)  # which may be too large for 32 bits
        if x.dim() == 2:
            columns, odd = columns.after(cells, far, magnitudes.renewed)
        now = Watch(magnitudes, columns, self.unusual, self.arrived, self.left_out, self.last)
        suspect = np.flatnonzero(far if odd is None else far | odd.any(1))
        if len(suspect):
            numbers = np.flatnonzero(finite)  # in the batch, of the rows of `cells`
            sized = [(labels[numbers[row]], float(sizes[row])) for row in suspect]
            unusual, accepted = self.unusual.after(sized, learned)
            for row in suspect[~np.array(accepted)]:
                why = now._reason(cells[row], None if odd is None else odd[row], name)
                reasons[int(numbers[row])] = why
            now = replace(now, unusual=unusual)
        return now, reasons

    def judge_values(
        self, far: Mapping[int, float], learned: Callable[[Hashable], int]
    ) -> tuple[Watch, dict[int, str]]:
        """The watch after values that are far outside, by row, and why which are left out."""
        if not far:
            return self, {}
        unusual, accepted = self.unusual.after([(VALUE, size) for size in far.values()], learned)
        why = "a value to be learned is {:.3g} deviations away from those so far"
        reasons = {
            row: why.format(size)
            for (row, size), good in zip(far.items(), accepted, strict=True)
            if not good
        }
        return replace(self, unusual=unusual), reasons

    def after(self, size: int, reasons: Mapping[int, str]) -> Watch:
        """The watch after a batch of so many examples, of which some were left out."""
        if not reasons:
            return replace(self, arrived=self.arrived + size)
        new = [Outlier(self.arrived + row, reasons[row]) for row in sorted(reasons)]
        left_out, last = self.left_out + len(new), (*self.last, *new)[-LAST:]
        return replace(self, arrived=self.arrived + size, left_out=left_out, last=last)

    def _reason(self, cells: np.ndarray, odd: np.ndarray | None, name: Callable[[int], str]) -> str:
        """Why an example with these magnitudes `[F]` is left out."""
        if odd is not None and odd.any():
            feature = int(odd.argmax())
            bound = float(self.columns.bound[feature])
        else:
            feature, bound = int(cells.argmax()), self.magnitudes.bound
        return (
            f"{name(feature)} has the magnitude {cells[feature]:.3g}, and the examples so far "
            f"make at most {bound:.3g} plausible"
        )

    def facts(self) -> dict[str, Any]:
        """What is saved as plain data."""
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
        """What is saved as tensors."""
        columns = {name: getattr(self.columns, name) for name in COLUMNS}
        arrays = {"recent": self.magnitudes.recent, **columns}
        return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}

    @classmethod
    def restored(cls, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Watch:
        """The watch that was saved as `facts` and `tensors`."""
        recent = tensors["recent"].numpy().copy()
        columns = {name: tensors[name].numpy().copy() for name in COLUMNS}
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
            raise DataError("what it has of earlier examples contradicts itself")
        unusual = {
            decoded(label): Seen(int(start), int(far), int(accepted), tuple(map(float, sizes)))
            for label, start, far, accepted, sizes in facts["unusual"]
        }
        return cls(
            Magnitudes(recent, facts["counted"], facts["fresh"], facts["bound"]),
            Columns(**columns, examples=facts["examples"], moved=facts["moved"]),
            Unusual(unusual),
            facts["arrived"],
            facts["left_out"],
            tuple(Outlier(int(number), str(reason)) for number, reason in facts["last"]),
        )


def _can_be_saved(label: Hashable) -> bool:
    """Whether a file can have a label; one that was never learned is not known to be one."""
    try:
        return no_class(label) is None and encoded(label) is not None
    except InputError:
        return False
