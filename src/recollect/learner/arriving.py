"""What arrives at a learner: examples and labels, of which some cannot be read or trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

from torch import Tensor, nn

from recollect.core.packing import Packing
from recollect.errors import InputError
from recollect.learner.examples import Kind, batch_of, holds_labels, tensor_of
from recollect.learner.labels import labels_of, predictions_of
from recollect.learner.outliers import NOT_FINITE, ON_OUTLIER, Watch
from recollect.learner.parts import as_batch, first_of, has_parts, parts_of

__all__ = ["Arriving", "Sifted", "arriving", "check_on_outlier"]

NOT_READ = "it cannot be read as an example of numbers of the shape that others have"


class Sifted(NamedTuple):
    """The examples `[n, ...]` of a batch that are learned, their labels, and what was left out."""

    batch: Tensor
    labels: list[Hashable]
    reasons: Mapping[int, str]
    watch: Watch


@final
@dataclass(frozen=True)
class Arriving:
    """A batch of examples `[n, ...]` with labels; `rows` are those of them that can be read.

    Where an example has several tensors, `examples` are rows of a packing.
    """

    examples: Tensor
    labels: list[Hashable]
    several: bool
    rows: Sequence[int]
    packing: Packing | None = None

    def sifted(self, watch: Watch, learned: Callable[[Hashable], int], on_outlier: str) -> Sifted:
        """Without the examples that cannot be trusted, or an error if those are not skipped."""
        labels = [self.labels[row] for row in self.rows]
        if self.packing is None:
            watch, found = watch.judge(self.examples, labels, learned)
        elif (reals := self.packing.floats(self.examples)) is None:
            found = dict[int, str]()  # token ids have no magnitude
        else:
            watch, found = watch.judge(reals, labels, learned, self.packing.real_name)
        if on_outlier != "skip":
            for row, why in found.items():
                if why == NOT_FINITE:
                    raise InputError("an example has values that are not finite (NaN or infinity)")
                if on_outlier == "raise":
                    raise InputError(
                        f"example {row} of this batch is far outside of what the stream has shown: "
                        f"{why}; observe(..., on_outlier='learn') accepts it"
                    )
            found = {}
        unread = set(range(len(self.labels))) - set(self.rows) if self._partly else ()
        reasons = {self.rows[row]: why for row, why in found.items()}
        reasons |= dict.fromkeys(unread, NOT_READ)
        watch = watch.after(len(self.labels), reasons)
        if not found:
            return Sifted(self.examples, labels, reasons, watch)
        kept = [row for row in range(len(labels)) if row not in found]
        return Sifted(self.examples[kept], [labels[row] for row in kept], reasons, watch)

    def predictions(self, predicted: Any, reasons: Mapping[int, str]) -> list[Hashable]:
        """What was predicted for the examples that are learned."""
        every = predictions_of(predicted, len(self.labels), self.several)
        return [label for row, label in enumerate(every) if row not in reasons]

    @property
    def _partly(self) -> bool:
        return len(self.rows) < len(self.labels)


def arriving(x: Any, y: Any, kind: Kind | None, on_outlier: str, network: nn.Module) -> Arriving:
    """The examples and the labels that were given; refused if they do not belong together.

    `network` is what reads the examples.
    """
    if has_parts(x, network):
        parts = parts_of(x)
        labels, several = labels_of(list(y) if holds_labels(y, *first_of(parts, kind)) else y)
        count = len(labels) if several else None
        examples, packing = as_batch(parts, count, named=isinstance(x, Mapping))
        return Arriving(examples, labels, several, range(len(labels)), packing)
    rows: Sequence[int] | None = None
    try:
        examples = tensor_of(x)
    except InputError:
        rows = _readable(x, kind) if on_outlier == "skip" else None
        if not rows:
            raise
        examples = tensor_of([x[row] for row in rows])
        y = list(y) if isinstance(y, tuple) and len(y) == len(x) else y
    labels, several = labels_of(list(y) if holds_labels(y, examples, kind) else y)
    if rows is None:
        examples = batch_of(examples, len(labels) if several else None)
        return Arriving(examples, labels, several, range(len(labels)))
    if not several or len(labels) != len(x):
        raise InputError(f"there are {len(labels)} labels and {len(x)} examples")
    return Arriving(batch_of(examples, len(rows)), labels, several, rows)


def check_on_outlier(on_outlier: object) -> None:
    """Refuse what is not a way to treat outliers."""
    if on_outlier not in ON_OUTLIER:
        raise InputError(
            f"on_outlier must be one of {', '.join(map(repr, ON_OUTLIER))}, not {on_outlier!r}"
        )


def _readable(x: Any, kind: Kind | None) -> list[int] | None:
    """The rows of a list that are examples of one shape; None if x is not a list of rows."""
    if not isinstance(x, list | tuple) or len(x) < 2:
        return None
    shapes: dict[int, tuple[int, ...]] = {}
    for row, each in enumerate(x):
        try:
            shapes[row] = tuple(tensor_of(each).shape)
        except InputError:
            continue
    usual = Counter(shape for shape in shapes.values() if shape).most_common(1)
    shape = kind.shape if kind else usual[0][0] if usual else None
    return [row for row, found in shapes.items() if found == shape]
