"""What a learner predicts, for each target: read from y, learned, and given back to the user."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from recollect.core.targets import Target
from recollect.errors import InputError
from recollect.learner.label_record import LabelRecord
from recollect.learner.label_sets import LabelSets
from recollect.learner.labels import Labels, decoded, listed
from recollect.learner.record import Record
from recollect.learner.value_record import ValueRecord
from recollect.learner.values import Values

__all__ = [
    "Answers",
    "AnyRecord",
    "empty_answers",
    "empty_record",
    "restored_answers",
    "restored_record",
]

AnyRecord = Record | ValueRecord | LabelRecord
RECORDS: dict[str, type[AnyRecord]] = {
    "class": Record, "regression": ValueRecord, "labels": LabelRecord,
}  # fmt: skip


# What a number of the optimiser is if it is not given. Squared errors have no bound: without one, a
# value that is far away, though not far enough to be left out, would ruin the weights.
USUAL_NUMBERS: dict[str, dict[str, float]] = {"regression": {"clip": 5.0}}


class Answers(Protocol):
    """What is known of the targets of a stream: classes (`Labels`), `Values` or `LabelSets`."""

    @property
    def known(self) -> tuple[Hashable, ...]:
        """The labels, in the order of the outputs; none for values."""

    @property
    def fixed(self) -> bool:
        """Whether there are never more outputs."""

    def __len__(self) -> int:
        """How many outputs have a meaning."""

    def __contains__(self, label: object) -> bool:
        """Whether a label is known."""

    def read(self, y: Any, batch: bool | None, count: int) -> tuple[list[Hashable], bool]:
        """The targets in y, one for each example, and whether it is a batch of them.

        `batch` is whether x is one, or None if only y can tell; x has `count` rows.
        """

    def group(self, answer: Hashable) -> Hashable:
        """The label that an example with this target counts for."""

    def far(self, answers: Sequence[Hashable]) -> dict[int, float]:
        """Which of these targets are far outside of those so far, and how far."""

    def with_new(self, answers: Sequence[Hashable], most: int) -> Answers:
        """What is known after these targets."""

    def encode(self, answers: Sequence[Hashable], outputs: int) -> np.ndarray:
        """Targets as a fleet learns them, `[n]` or `[n, outputs]`."""

    def decode(self, scores: Tensor) -> Any:
        """What is predicted by scores `[n, len(self)]`, in the user's terms."""

    def shares(self, scores: Tensor) -> Tensor:
        """The probabilities that scores `[n, len(self)]` stand for."""

    def guess(self, scores: Tensor | None, count: int) -> Any:
        """What scores predict, to be compared with what is learned; None: there was no network."""

    def guessed(self, predicted: Sequence[Hashable]) -> Any:
        """The same of what was predicted before."""

    def judged(self, record: Any, answers: Sequence[Hashable], y: np.ndarray, guess: Any) -> Any:
        """The record after these targets, which are y for a fleet."""

    def facts(self) -> dict[str, Any]:
        """What is saved as plain data."""


def empty_answers(target: Target, classes: object) -> Answers:
    """What is known before the first example; `classes` are those that there will be, if said."""
    if target.name == "regression":
        if classes is not None:
            raise InputError("classes are not for target='regression': leave them out")
        return Values()
    labels = Labels() if classes is None else Labels(listed(classes), True)
    return labels if target.name == "class" else LabelSets(labels)


def restored_answers(target: Target, facts: Mapping[str, Any]) -> Answers:
    """What was known when a learner was saved."""
    if target.name == "regression":
        return Values.restored(facts["values"])
    labels = Labels(tuple(decoded(each) for each in facts["labels"]), facts["fixed"])
    return labels if target.name == "class" else LabelSets(labels)


def empty_record(target: Target, window: int) -> AnyRecord:
    """The record before the first prediction."""
    return RECORDS[target.name].empty(window)


def restored_record(target: Target, tensors: Mapping[str, Tensor], seen: int) -> AnyRecord:
    """The record that was saved."""
    return RECORDS[target.name].restored(tensors, seen)
