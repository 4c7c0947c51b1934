"""Several labels an example: sets of labels, as rows of ones and zeros."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
from torch import Tensor

from recollect.errors import InputError
from recollect.learner.label_record import LabelRecord
from recollect.learner.labels import Labels, encoded, labels_of
from recollect.learner.values import read_batch

__all__ = ["LabelSets"]

Guess = tuple[np.ndarray, np.ndarray | None]
ONES = (
    ": give a set of labels for each example, or, for columns of ones and zeros, an array, and say "
    "what the columns are when the learner is made (classes=[...])"
)
Several = (set, frozenset, list, tuple, np.ndarray, Tensor)


@final
@dataclass(frozen=True)
class LabelSets:
    """The labels that are known, of which an example has any number.

    >>> sets = LabelSets(Labels()).with_new([frozenset({"red", "round"}), frozenset({"red"})])
    >>> sorted(sets.known), sets.encode([frozenset({"red"})], outputs=3).sum().item()
    (['red', 'round'], 1)
    """

    labels: Labels

    @property
    def known(self) -> tuple[Hashable, ...]:
        """The labels, in the order of the outputs."""
        return self.labels.known

    @property
    def fixed(self) -> bool:
        """Whether all labels there will be were listed."""
        return self.labels.fixed

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self.labels

    def read(self, y: Any, batch: bool | None, count: int) -> tuple[list[Hashable], bool]:
        """The labels of each example as a frozenset, and whether y is a batch of sets.

        Numbers in an array or a tensor are ones and zeros, in the order of the listed classes.
        """
        y = _as_array(y)
        if not isinstance(y, Several):
            raise InputError(
                f"with target='labels', y is a set or list of labels for each example, not "
                f"{y!r:.60}"
            )
        rows = [_as_array(each) for each in y]
        nested = not isinstance(y, set | frozenset) and all(isinstance(e, Several) for e in rows)
        several = read_batch(batch, nested and bool(rows or batch), count, len(rows))
        return [frozenset(self._labels(each)) for each in (rows if several else [y])], several

    def _labels(self, one: Any) -> list[Hashable]:
        """The labels of one example."""
        if isinstance(one, np.ndarray) and one.dtype.kind in "biuf" and one.ndim == 1 and len(one):
            return self._indicated(one)
        found = labels_of(list(one) if isinstance(one, set | frozenset | tuple) else one)[0]
        if len(set(found)) < len(found):
            raise InputError(f"a label occurs twice in the labels of an example: {one!r:.60}{ONES}")
        return found

    def _indicated(self, one: np.ndarray) -> list[Hashable]:
        """The labels at the ones of an array of ones and zeros."""
        if not self.fixed:
            raise InputError(f"y is an array of numbers, and classes were not listed{ONES}")
        if len(one) != len(self) or not np.isin(one, (0, 1)).all():
            raise InputError(
                f"an array of ones and zeros must have one for each of the {len(self)} classes, "
                f"not {one!r:.60}: otherwise give a set of labels for each example"
            )
        return [self.known[column] for column in np.flatnonzero(one)]

    def group(self, answer: Hashable) -> Hashable:
        """All examples count alike."""
        return ""

    def far(self, answers: Sequence[Hashable]) -> dict[int, float]:
        """No set of labels is far outside of others."""
        return {}

    def with_new(self, answers: Sequence[Hashable], most: int = 1000) -> LabelSets:
        """These labels and the unknown ones of some sets."""
        # In an order that does not depend on the hashes of texts.
        every = [label for each in answers for label in sorted(_set(each), key=_order)]
        labels = self.labels.with_new(every, most)
        return self if labels is self.labels else LabelSets(labels)

    def encode(self, answers: Sequence[Hashable], outputs: int) -> np.ndarray:
        """A 1 for every label of an example, and zeros, `[n, outputs]`."""
        found = np.zeros((len(answers), outputs), dtype=np.int8)
        for row, each in enumerate(answers):
            found[row, self.labels.numbers(_set(each))] = 1
        return found

    def decode(self, scores: Tensor) -> list[Any]:
        """The labels whose probability is above one half, as sets."""
        rows = (scores > 0).tolist()
        return [{label for label, has in zip(self.known, row, strict=True) if has} for row in rows]

    def shares(self, scores: Tensor) -> Tensor:
        """The probability of every label, `[n, labels]`."""
        return scores.double().sigmoid()

    def guess(self, scores: Tensor | None, count: int) -> Guess:
        """What scores predict, `[n, labels]`, and the probabilities."""
        if scores is None:
            return np.zeros((count, 0), dtype=bool), None
        return (scores > 0).cpu().numpy(), self.shares(scores).cpu().numpy()

    def guessed(self, predicted: Sequence[Hashable]) -> Guess:
        """What was predicted before, `[n, labels]`, without probabilities."""
        return self.encode([_set(each) & {*self.known} for each in predicted], len(self)) > 0, None

    def judged(
        self, record: LabelRecord, answers: Sequence[Hashable], y: np.ndarray, guess: Guess
    ) -> LabelRecord:
        """The record after these sets; what was not known before was not predicted."""
        has = y[:, : len(self)] > 0
        said = np.zeros_like(has)
        said[:, : guess[0].shape[1]] = guess[0]
        return record.after(has, said, guess[1])

    def facts(self) -> dict[str, Any]:
        """What is saved as plain data, besides the labels."""
        return {}


def _as_array(y: Any) -> Any:
    """A tensor or a data frame as numpy's array, and anything else as it is."""
    if isinstance(y, Tensor):
        return y.detach().cpu().numpy()
    return np.asarray(y) if hasattr(y, "__array__") and hasattr(y, "shape") else y


def _set(answer: Hashable) -> frozenset[Hashable]:
    return cast(frozenset[Hashable], answer)


def _order(label: Hashable) -> tuple[str, str]:
    return type(label).__name__, str(encoded(label)) if _plain(label) else repr(label)


def _plain(label: Hashable) -> bool:
    return isinstance(label, str | int | float | bytes | bool)
