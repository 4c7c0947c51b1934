"""What arrives at a learner: examples and labels, of which some cannot be read or trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from torch import Tensor, nn

from recollect.core.packing import Packing
from recollect.core.targets import LARGEST_WEIGHT
from recollect.errors import InputError
from recollect.learner.answers import Answers
from recollect.learner.examples import Kind, batch_of, tensor_of
from recollect.learner.labels import Labels, predictions_of
from recollect.learner.outliers import NOT_FINITE, ON_OUTLIER, Watch
from recollect.learner.parts import as_batch, first_of, has_parts, parts_of

__all__ = ["Arriving", "Sifted", "arriving", "check_on_outlier"]

NO_LABELS = Labels()
NO_WEIGHT = "its weight is 0"
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
    weights: np.ndarray | None = None

    def weights_without(self, reasons: Mapping[int, str]) -> np.ndarray | None:
        """The weights of the examples that are learned, if there are any."""
        return None if self.weights is None else np.delete(self.weights, [*reasons])

    def sifted(
        self,
        watch: Watch,
        learned: Callable[[Hashable], int],
        on_outlier: str,
        answers: Answers = NO_LABELS,
    ) -> Sifted:
        """Without the examples that cannot be trusted, or an error if those are not skipped.

        Those with a weight of 0 are left out in any case.
        """
        labels = [self.labels[row] for row in self.rows]
        groups = labels
        if not isinstance(answers, Labels):
            groups = [answers.group(label) for label in labels]
        if self.packing is None:
            watch, found = watch.judge(self.examples, groups, learned)
        elif (reals := self.packing.floats(self.examples)) is None:
            found = dict[int, str]()  # token ids have no magnitude
        else:
            watch, found = watch.judge(reals, groups, learned, self.packing.real_name)
        if groups is not labels:
            watch, far = watch.judge_values(answers.far(labels), learned)
            found |= far
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
        if self.weights is not None:
            found |= {n: NO_WEIGHT for n, row in enumerate(self.rows) if not self.weights[row]}
        unread = set(range(len(self.labels))) - set(self.rows) if self._partly else ()
        reasons = {self.rows[row]: why for row, why in found.items()}
        reasons |= dict.fromkeys(unread, NOT_READ)
        watch = watch.after(len(self.labels), reasons)
        if not found:
            return Sifted(self.examples, labels, reasons, watch)
        kept = [row for row in range(len(labels)) if row not in found]
        return Sifted(self.examples[kept], [labels[row] for row in kept], reasons, watch)

    def predictions(
        self, predicted: Any, reasons: Mapping[int, str], answers: Answers = NO_LABELS
    ) -> list[Hashable]:
        """What was predicted for the examples that are learned."""
        count = len(self.labels)
        if isinstance(answers, Labels):
            every = predictions_of(predicted, count, self.several)
        else:
            every, _ = answers.read(predicted, self.several, count if self.several else 0)
        return [label for row, label in enumerate(every) if row not in reasons]

    @property
    def _partly(self) -> bool:
        return len(self.rows) < len(self.labels)


def arriving(
    x: Any,
    y: Any,
    kind: Kind | None,
    on_outlier: str,
    network: nn.Module,
    answers: Answers = NO_LABELS,
    weight: Any = None,
) -> Arriving:
    """The examples and the labels that were given; refused if they do not belong together.

    `network` is what reads the examples.
    """
    if has_parts(x, network):
        parts = parts_of(x)
        first, kind = first_of(parts, kind)
        labels, several = answers.read(y, _is_batch(first, kind), len(first) if first.dim() else 0)
        count = len(labels) if several else None
        examples, packing = as_batch(parts, count, named=isinstance(x, Mapping))
        weights = weights_of(weight, len(labels))
        return Arriving(examples, labels, several, range(len(labels)), packing, weights)
    rows: Sequence[int] | None = None
    try:
        examples = tensor_of(x)
    except InputError:
        rows = _readable(x, kind) if on_outlier == "skip" else None
        if not rows:
            raise
        examples = tensor_of([x[row] for row in rows])
        y = list(y) if isinstance(y, tuple) and len(y) == len(x) else y
    batch = _is_batch(examples, kind) if rows is None else True
    axes = examples.dim()
    count = len(examples) if rows is None and axes else len(x) if rows is not None else 0
    labels, several = answers.read(y, batch, count)
    weights = weights_of(weight, len(labels))
    if rows is None:
        examples = batch_of(examples, len(labels) if several else None)
        return Arriving(examples, labels, several, range(len(labels)), weights=weights)
    if not several or len(labels) != len(x):
        raise InputError(f"there are {len(labels)} labels and {len(x)} examples")
    return Arriving(batch_of(examples, len(rows)), labels, several, rows, weights=weights)


def weights_of(weight: Any, count: int) -> np.ndarray | None:
    """The weights `[n]` of a batch, or None if none were given.

    >>> weights_of(2, 1), weights_of([0.5, 1], 2)
    (array([2.], dtype=float32), array([0.5, 1. ], dtype=float32))
    """
    if weight is None:
        return None
    try:
        found = weight.detach().cpu().numpy() if isinstance(weight, Tensor) else np.asarray(weight)
    except (TypeError, ValueError):  # lists of unequal length
        found = np.array(None)
    if found.dtype.kind not in "biuf":
        raise InputError(f"a weight must be a number, not {weight!r:.60}")
    if found.ndim > 1:
        raise InputError(
            f"weight must be a number, or a list with one for each example, not of the shape "
            f"{list(found.shape)}"
        )
    if found.ndim and len(found) != count:
        raise InputError(f"there are {found.size} weights and {count} examples")
    if not bool(((found >= 0) & (found <= LARGEST_WEIGHT)).all()):
        raise InputError(
            f"weights must be numbers from 0 to {LARGEST_WEIGHT:g}: divide large ones by their mean"
        )
    return np.broadcast_to(found, count).astype(np.float32)


def check_on_outlier(on_outlier: object) -> None:
    """Refuse what is not a way to treat outliers."""
    if on_outlier not in ON_OUTLIER:
        raise InputError(
            f"on_outlier must be one of {', '.join(map(repr, ON_OUTLIER))}, not {on_outlier!r}"
        )


def _is_batch(examples: Tensor, kind: Kind | None) -> bool | None:
    """Whether examples are a batch; None if only their labels can tell."""
    axes = examples.dim()
    return axes == len(kind.shape) + 1 if kind else (None if axes > 1 else False)


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
