"""The interface of all targets: parse y, encode it for training, decode predictions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from recollect.core.targets import Target
from recollect.errors import InputError
from recollect.learner.monitoring.class_record import Record
from recollect.learner.monitoring.label_record import LabelRecord
from recollect.learner.monitoring.value_record import ValueRecord
from recollect.learner.targets.label_sets import LabelSets
from recollect.learner.targets.labels import Labels, decoded, listed
from recollect.learner.targets.values import Values

AnyRecord = Record | ValueRecord | LabelRecord
RECORDS: dict[str, type[AnyRecord]] = {
    "class": Record, "regression": ValueRecord, "labels": LabelRecord,
}  # fmt: skip


# Defaults of optimiser hyper-parameters per target. Without gradient clipping, a value that is far
# off, though not far enough to be left out, could ruin the weights.
DEFAULT_NUMBERS: dict[str, dict[str, float]] = {
    "class": {"clip": 10.0}, "regression": {"clip": 5.0}, "labels": {"clip": 10.0},
}  # fmt: skip


class Answers(Protocol):
    """The targets of a stream as known so far: classes (`Labels`), `Values` or `LabelSets`."""

    @property
    def known(self) -> tuple[Hashable, ...]:
        """The known labels, in the order of the outputs; empty for values."""

    @property
    def fixed(self) -> bool:
        """Whether the number of outputs never grows."""

    def __len__(self) -> int:
        """Number of outputs in use."""

    def __contains__(self, label: object) -> bool:
        """Whether a label is known."""

    def read(self, y: Any, batch: bool | None, count: int) -> tuple[list[Hashable], bool]:
        """Parse y into one target per example; also return whether it is a batch.

        `batch` is whether x is a batch, or None if that depends on y; x has `count` rows.
        """

    def group(self, answer: Hashable) -> Hashable:
        """Return the label under which outliers with this target are counted."""

    def far(self, answers: Sequence[Hashable]) -> dict[int, float]:
        """Find targets that are far outside the range so far: row and distance."""

    def with_new(self, answers: Sequence[Hashable], most: int) -> Answers:
        """Return the targets as known after a batch, with at most `most` classes."""

    def encode(self, answers: Sequence[Hashable], outputs: int) -> np.ndarray:
        """Encode targets for training, `[n]` or `[n, outputs]`."""

    def decode(self, scores: Tensor) -> Any:
        """Decode logits `[n, len(self)]` to predictions: labels, sets or numbers."""

    def shares(self, scores: Tensor) -> Tensor:
        """Convert logits `[n, len(self)]` to probabilities."""

    def guess(self, scores: Tensor | None, count: int) -> Any:
        """Convert logits to predictions that `judged` evaluates; None: no network yet."""

    def predictions(self, predicted: Any, several: bool, count: int) -> list[Hashable]:
        """Parse earlier predictions, one for each of `count` examples, or raise."""

    def guessed(self, predicted: Sequence[Hashable]) -> Any:
        """Convert earlier predictions to the form that `guess` returns."""

    def judged(self, record: Any, answers: Sequence[Hashable], y: np.ndarray, guess: Any) -> Any:
        """Return the record after evaluating predictions; y are the encoded targets."""

    def facts(self) -> dict[str, Any]:
        """Return the plain data to be saved."""


def empty_answers(target: Target, classes: object) -> Answers:
    """Create the targets before the first example, with fixed `classes` if given."""
    if target.name == "regression":
        if classes is not None:
            raise InputError("target='regression' has no classes: leave classes out")
        return Values()
    labels = Labels() if classes is None else Labels(listed(classes), True)
    return labels if target.name == "class" else LabelSets(labels)


def restored_answers(target: Target, facts: Mapping[str, Any]) -> Answers:
    """Restore the targets of a saved learner."""
    if target.name == "regression":
        return Values.restored(facts["values"])
    labels = Labels(tuple(decoded(each) for each in facts["labels"]), facts["fixed"])
    return labels if target.name == "class" else LabelSets(labels)


def empty_record(target: Target, window: int) -> AnyRecord:
    """Create an empty record of predictions."""
    return RECORDS[target.name].empty(window)


def restored_record(target: Target, tensors: Mapping[str, Tensor], seen: int) -> AnyRecord:
    """Restore a saved record of predictions."""
    return RECORDS[target.name].restored(tensors, seen)
