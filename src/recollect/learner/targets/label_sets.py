"""Multi-label targets: a set of labels per example, encoded as ones and zeros."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

import numpy as np
from torch import Tensor

from recollect.errors import InputError
from recollect.learner.monitoring.label_record import LabelRecord
from recollect.learner.targets.labels import Labels, encoded, labels_of, not_predicted
from recollect.learner.targets.values import read_batch

Guess = tuple[np.ndarray, np.ndarray | None]
ONES = (
    ": give a set of labels for each example; for an array of ones and zeros, list the labels of "
    "its columns when you create the learner (classes=[...])"
)
Several = (set, frozenset, list, tuple, np.ndarray, Tensor)


@final
@dataclass(frozen=True)
class LabelSets:
    """The known labels of multi-label classification; an example has any number of them.

    >>> sets = LabelSets(Labels()).with_new([frozenset({"red", "round"}), frozenset({"red"})])
    >>> sorted(sets.known), sets.encode([frozenset({"red"})], outputs=3).sum().item()
    (['red', 'round'], 1)
    """

    labels: Labels

    @property
    def known(self) -> tuple[Hashable, ...]:
        """The known labels, in the order of the outputs."""
        return self.labels.known

    @property
    def fixed(self) -> bool:
        """Whether the labels are fixed, so that new ones are refused."""
        return self.labels.fixed

    def __len__(self) -> int:
        return len(self.labels)

    def __contains__(self, label: object) -> bool:
        return label in self.labels

    def read(self, y: Any, batch: bool | None, count: int) -> tuple[list[Hashable], bool]:
        """Parse y into a frozenset of labels per example; also return whether it is a batch.

        An array or tensor of numbers holds ones and zeros, in the order of the listed classes.
        """
        y = _as_array(y)
        if not _is_set(y):
            raise InputError(
                f"with target='labels', y must be a set or list of labels for each example, not "
                f"{y!r:.60}"
            )
        rows = [_as_array(each) for each in y]
        nested = not isinstance(y, set | frozenset) and all(_is_set(each) for each in rows)
        if not nested and len(rows) == count and batch is not False:
            plain = [each.item() if isinstance(each, np.ndarray) else each for each in rows]
            if batch or len({repr(each) for each in plain}) < count:
                raise InputError(
                    f"y has one label for each of {count} examples, but with target='labels' it "
                    f"must have a set or list of labels for each, such as [{plain[0]!r:.40}]"
                )
        # A tuple may itself be a label.
        certain = nested and any(not isinstance(each, tuple) for each in rows)
        if certain and batch is False:
            raise InputError(f"y has {len(rows)} sets of labels, but x is one example")
        batch = True if certain and batch is None else batch
        several = read_batch(batch, nested and bool(rows or batch), count, len(rows))
        return [frozenset(self._labels(each)) for each in (rows if several else [y])], several

    def _labels(self, one: Any) -> list[Hashable]:
        if isinstance(one, np.ndarray) and one.dtype.kind in "biuf" and one.ndim == 1 and len(one):
            return self._indicated(one)
        found = labels_of(list(one) if isinstance(one, set | frozenset | tuple) else one)[0]
        if len(set(found)) < len(found):
            raise InputError(f"an example has the same label twice: {one!r:.60}{ONES}")
        return found

    def _indicated(self, one: np.ndarray) -> list[Hashable]:
        """Convert an array of ones and zeros to the labels of its ones."""
        if not self.fixed:
            raise InputError(f"y is an array of numbers, but the classes were not listed{ONES}")
        if len(one) != len(self) or not np.isin(one, (0, 1)).all():
            raise InputError(
                f"an array of ones and zeros must have one element for each of the {len(self)} "
                f"classes, not {one!r:.60}: otherwise give a set of labels for each example"
            )
        return [self.known[column] for column in np.flatnonzero(one)]

    def group(self, answer: Hashable) -> Hashable:
        """Return one group for all examples."""
        return ""

    def far(self, answers: Sequence[Hashable]) -> dict[int, float]:
        """Return no outliers: sets of labels have no magnitude."""
        return {}

    def with_new(self, answers: Sequence[Hashable], most: int = 1000) -> LabelSets:
        """Return the known labels with the new ones of some sets added."""
        # Sorted: the order must not depend on string hashes.
        every = [label for each in answers for label in sorted(_set(each), key=_order)]
        labels = self.labels.with_new(every, most)
        return self if labels is self.labels else LabelSets(labels)

    def encode(self, answers: Sequence[Hashable], outputs: int) -> np.ndarray:
        """Encode sets as ones and zeros, `[n, outputs]`."""
        found = np.zeros((len(answers), outputs), dtype=np.int8)
        for row, each in enumerate(answers):
            found[row, self.labels.numbers(_set(each))] = 1
        return found

    def decode(self, scores: Tensor) -> list[Any]:
        """Return the set of labels with a probability above 0.5 for each example."""
        rows = (scores > 0).tolist()
        return [{label for label, has in zip(self.known, row, strict=True) if has} for row in rows]

    def shares(self, scores: Tensor) -> Tensor:
        """Convert logits to the probability of every label, `[n, labels]`."""
        return scores.double().sigmoid()

    def guess(self, scores: Tensor | None, count: int) -> Guess:
        """Convert logits to predictions `[n, labels]` and probabilities."""
        if scores is None:
            return np.zeros((count, 0), dtype=bool), None
        return (scores > 0).cpu().numpy(), self.shares(scores).cpu().numpy()

    def predictions(self, predicted: Any, several: bool, count: int) -> list[Hashable]:
        """Parse the sets that `predict` returned; None is an empty set."""
        each = predicted if several else [predicted]
        if not isinstance(each, list | tuple) or len(each) != count:
            raise not_predicted(predicted, several, count)
        rows = [_as_array(() if one is None else one) for one in each]
        if not all(_is_set(row) for row in rows):
            raise not_predicted(predicted, several, count)
        return [frozenset(self._labels(row)) for row in rows]

    def guessed(self, predicted: Sequence[Hashable]) -> Guess:
        """Encode earlier predictions, `[n, labels]`, without probabilities."""
        return self.encode([_set(each) & {*self.known} for each in predicted], len(self)) > 0, None

    def judged(
        self, record: LabelRecord, answers: Sequence[Hashable], y: np.ndarray, guess: Guess
    ) -> LabelRecord:
        """Return the record after evaluating predictions; new labels were not predicted."""
        has = y[:, : len(self)] > 0
        said = np.zeros_like(has)
        said[:, : guess[0].shape[1]] = guess[0]
        return record.after(has, said, guess[1])

    def facts(self) -> dict[str, Any]:
        """Return the plain data to be saved, in addition to the labels."""
        return {}


def _as_array(y: Any) -> Any:
    """Convert tensors and data frames to arrays; leave anything else unchanged."""
    if isinstance(y, Tensor):
        return y.detach().cpu().numpy()
    return np.asarray(y) if hasattr(y, "__array__") and hasattr(y, "shape") else y


def _is_set(one: object) -> bool:
    return isinstance(one, Several) and not (isinstance(one, np.ndarray) and one.ndim == 0)


def _set(answer: Hashable) -> frozenset[Hashable]:
    return cast(frozenset[Hashable], answer)


def _order(label: Hashable) -> tuple[str, str]:
    return type(label).__name__, str(encoded(label)) if _plain(label) else repr(label)


def _plain(label: Hashable) -> bool:
    return isinstance(label, str | int | float | bytes | bool)
