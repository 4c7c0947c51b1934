"""Parse the examples, labels and weights of a batch, and filter out bad examples."""

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
from recollect.learner.inputs.examples import Kind, batch_of, tensor_of
from recollect.learner.inputs.outliers import NOT_FINITE, ON_OUTLIER, RefusedExample, Watch
from recollect.learner.inputs.parts import as_batch, first_of, has_parts, parts_of
from recollect.learner.targets.answers import Answers
from recollect.learner.targets.labels import Labels

NO_LABELS = Labels()
NO_WEIGHT = "its weight is 0"
NOT_READ = "it cannot be converted to an array of numbers of the same shape as the others"


class Sifted(NamedTuple):
    """The examples `[n, ...]` and labels to learn from, and the reasons for the rows left out."""

    batch: Tensor
    labels: list[Hashable]
    reasons: Mapping[int, str]
    watch: Watch


@final
@dataclass(frozen=True)
class Arriving:
    """A batch as it arrived: examples `[n, ...]`, labels and weights.

    `rows` are the indices in the batch of the examples that could be converted. If an example has
    several tensors, `examples` are packed rows.
    """

    examples: Tensor
    labels: list[Hashable]
    several: bool
    rows: Sequence[int]
    packing: Packing | None = None
    weights: np.ndarray | None = None

    @property
    def hint(self) -> str:
        """Hint for an error message if a batch may have been interpreted as one example."""
        parts = self.packing.parts if self.packing else ()
        shape = max([part.shape for part in parts] or [self.examples.shape[1:]], key=len)
        if self.several or len(shape) < 2:
            return ""
        return f" (y is the target of one example: for {shape[0]} of them, give {shape[0]} targets)"

    def weights_without(self, reasons: Mapping[int, str]) -> np.ndarray | None:
        """Return the weights without the rows left out; None if no weights were given."""
        return None if self.weights is None else np.delete(self.weights, [*reasons])

    def sifted(
        self,
        watch: Watch,
        learned: Callable[[Hashable], int],
        on_outlier: str,
        answers: Answers = NO_LABELS,
    ) -> Sifted:
        """Filter out outliers and examples that are not finite, as `on_outlier` says.

        Examples with a weight of 0 are always left out.

        Args:
            watch: The outlier statistics before this batch.
            learned: Returns how many examples of a label have been learned.
            on_outlier: "skip", "raise" or "learn".
            answers: The known targets.

        Raises:
            InputError: There is such an example, and it is not to be skipped.
        """
        labels = [self.labels[row] for row in self.rows] if self._partly else self.labels
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
            for row, why in sorted(found.items()):
                if why == NOT_FINITE:
                    wrong = "has values that are not finite (NaN or infinity)"
                    raise RefusedExample(row, wrong, alone=not self.several)
                if on_outlier == "raise":
                    wrong = (
                        f"is far outside the range of the stream so far: {why}; observe(..., "
                        f"on_outlier='learn') accepts it"
                    )
                    raise RefusedExample(row, wrong, alone=not self.several)
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
        """Parse earlier predictions, and return those of the examples that are learned."""
        every = answers.predictions(predicted, self.several, len(self.labels))
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
    """Convert the arguments of `observe` to a batch.

    Args:
        x: The example or batch.
        y: The label or labels.
        kind: The shape and type of examples, if known.
        on_outlier: With "skip", rows of a list that cannot be converted are left out.
        network: The module that takes the examples.
        answers: The known targets, which parse y.
        weight: The weight or weights.

    Raises:
        InputError: x and y cannot be converted, or have different numbers of examples.
    """
    if has_parts(x, network):
        parts = parts_of(x, kind)
        first, kind = first_of(parts, kind)
        labels, several = answers.read(y, _is_batch(first, kind), len(first) if first.dim() else 0)
        count = len(labels) if several else None
        examples, packing = as_batch(parts, count, named=isinstance(x, Mapping))
        weights = weights_of(weight, len(labels))
        return Arriving(examples, labels, several, range(len(labels)), packing, weights)
    rows: Sequence[int] | None = None
    like = kind.dtype if kind else None
    try:
        examples = tensor_of(x, like=like)
    except InputError:
        rows = _readable(x, kind) if on_outlier == "skip" else None
        if not rows:
            raise
        examples = tensor_of([x[row] for row in rows], like=like)
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
        raise InputError(f"y has {len(labels)} labels, but x has {len(x)} examples")
    return Arriving(batch_of(examples, len(rows)), labels, several, rows, weights=weights)


def weights_of(weight: Any, count: int) -> np.ndarray | None:
    """Convert the argument `weight` to an array `[n]`; None if it is None.

    >>> weights_of(2, 1), weights_of([0.5, 1], 2)
    (array([2.], dtype=float32), array([0.5, 1. ], dtype=float32))
    """
    if weight is None:
        return None
    try:
        found = weight.detach().cpu().numpy() if isinstance(weight, Tensor) else np.asarray(weight)
    except (TypeError, ValueError):  # ragged lists
        found = np.array(None)
    if found.dtype.kind not in "biuf":
        raise InputError(f"a weight must be a number, not {weight!r:.60}")
    if found.ndim > 1:
        raise InputError(
            f"weight must be a number or a list of numbers, one for each example, not an array of "
            f"shape {list(found.shape)}"
        )
    if found.ndim and len(found) != count:
        raise InputError(f"there are {found.size} weights, but {count} examples: give one for each")
    bad = found[~((found >= 0) & (found <= LARGEST_WEIGHT))]
    if bad.size:
        large = ": divide weights by their mean" if bad.flat[0] > LARGEST_WEIGHT else ""
        raise InputError(
            f"weights must be numbers from 0 to {LARGEST_WEIGHT:g}, not {bad.flat[0]:g}{large}"
        )
    return np.broadcast_to(found, count).astype(np.float32)


def check_on_outlier(on_outlier: object) -> None:
    """Raise an `InputError` unless this is a valid value of `on_outlier`."""
    if on_outlier not in ON_OUTLIER:
        raise InputError(
            f"on_outlier must be one of {', '.join(map(repr, ON_OUTLIER))}, not {on_outlier!r}"
        )


def _is_batch(examples: Tensor, kind: Kind | None) -> bool | None:
    """Whether examples are a batch; None if that depends on the labels."""
    axes = examples.dim()
    return axes == len(kind.shape) + 1 if kind else (None if axes > 1 else False)


def _readable(x: Any, kind: Kind | None) -> list[int] | None:
    """Return the rows of a list that convert to the same shape; None if x is not a list."""
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
