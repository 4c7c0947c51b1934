"""Tell which examples of a batch lie too far outside of what the stream has shown so far."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
from torch import Tensor

from recollect.learner.columns import Columns
from recollect.learner.magnitudes import Magnitudes
from recollect.learner.unusual import Unusual

__all__ = ["NOT_FINITE", "Outlier", "Verdict", "Watch"]

LAST = 10
NOT_FINITE = "it has values that are not finite (NaN or infinity)"


class Outlier(NamedTuple):
    """An example that was left out: its number in the stream, from 0, and the reason."""

    number: int
    reason: str


class Verdict(NamedTuple):
    """Why which examples of a batch are left out, by their row, and the watch after the batch."""

    reasons: Mapping[int, str]
    watch: Watch


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
        self, x: Tensor, labels: Sequence[Hashable], learned: Callable[[Hashable], int]
    ) -> Verdict:
        """Examine a batch `[n, ...]`; `learned` says how many examples of a label were learned."""
        if not x.is_floating_point():
            return Verdict({}, replace(self, arrived=self.arrived + len(x)))
        cells = np.abs(x.detach().cpu().float().numpy().reshape(len(x), -1))
        sizes: np.ndarray = cells.max(1)
        finite, reasons = np.isfinite(sizes), dict[int, str]()
        if not finite.all():
            cells, sizes = cells[finite], sizes[finite]
            reasons = dict.fromkeys(np.flatnonzero(~finite).tolist(), NOT_FINITE)
        magnitudes, columns, odd = self.magnitudes.after(sizes), self.columns, None
        far = sizes > magnitudes.bound
        if x.dim() == 2:
            columns, odd = columns.after(cells, far, magnitudes.renewed)
        now = Watch(
            magnitudes, columns, self.unusual, self.arrived + len(x), self.left_out, self.last
        )
        suspect = np.flatnonzero(far if odd is None else far | odd.any(1))
        if len(suspect):
            numbers = np.flatnonzero(finite)  # in the batch, of the rows of `cells`
            sized = [(labels[numbers[row]], float(sizes[row])) for row in suspect]
            unusual, accepted = self.unusual.after(sized, learned)
            for row in suspect[~np.array(accepted)]:
                reasons[int(numbers[row])] = now._reason(cells[row], None if odd is None else odd[row])
            now = replace(now, unusual=unusual)
        return Verdict(reasons, now.without(reasons, self.arrived))

    def without(self, reasons: Mapping[int, str], first: int) -> Watch:
        """The watch after some were left out of a batch whose first example has this number."""
        if not reasons:
            return self
        new = [Outlier(first + row, reasons[row]) for row in sorted(reasons)]
        left_out, last = self.left_out + len(new), (*self.last, *new)[-LAST:]
        return replace(self, left_out=left_out, last=last)

    def _reason(self, cells: np.ndarray, odd: np.ndarray | None) -> str:
        """Why an example with these magnitudes `[F]` is left out."""
        if odd is not None and odd.any():
            feature = int(odd.argmax())
            bound = float(self.columns.bound[feature])
        else:
            feature, bound = int(cells.argmax()), self.magnitudes.bound
        return (
            f"feature {feature} has the magnitude {cells[feature]:.3g}, and the examples so far "
            f"make at most {bound:.3g} plausible"
        )
