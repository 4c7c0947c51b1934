"""Classification targets: class labels, and the network output assigned to each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from recollect.errors import DataError, InputError
from recollect.learner.monitoring.class_record import Record

PLAIN_BITS = 1024
MOST, LONGEST = 1000, 1000  # classes, and characters in the name of one
DECODERS: dict[str, Callable[[str], Hashable]] = {
    "bytes": bytes.fromhex, "int": lambda text: int(text, 16), "float": float,
}  # fmt: skip
NUMBER = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?", re.ASCII)
PLAIN = {int, str}  # types whose values are labels as they are
ALWAYS_LABELS = "iubUS"  # numpy's kinds of integers, booleans, strings and bytes
MASKED = "a label is missing (masked): drop examples without a label before you observe them"


@final
@dataclass(frozen=True)
class Labels:
    """The known class labels in order of arrival; label n is assigned output n.

    >>> labels = Labels(("cat",))
    >>> more = labels.with_new(["dog", "cat"])
    >>> more.known, more.numbers(["cat", "dog"]), labels.known
    (('cat', 'dog'), [0, 1], ('cat',))
    """

    known: tuple[Hashable, ...] = ()
    fixed: bool = False
    _index: dict[Hashable, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index = {label: output for output, label in enumerate(self.known)}
        if len(index) < len(self.known):
            raise InputError("classes lists the same label twice: list every label once")
        object.__setattr__(self, "_index", index)

    def __len__(self) -> int:
        return len(self.known)

    def __contains__(self, label: object) -> bool:
        return label in self._index

    def with_new(self, labels: Iterable[Hashable], most: int = MOST) -> Labels:
        """Return the known labels with the new ones of `labels` added.

        Raises:
            InputError: The classes are fixed, a label cannot be a class, or there would be more
                than `most` classes.
        """
        if self._index.keys() >= set(labels):
            return self
        new = [label for label in dict.fromkeys(labels) if label not in self._index]
        if self.fixed:
            raise InputError(
                f"unknown label {new[0]!r}: the classes of this learner are fixed "
                f"({', '.join(repr(label) for label in self.known[:10])}"
                f"{', ...' if len(self.known) > 10 else ''})"
            )
        for label in new:
            if why := no_class(label):
                raise InputError(why)
        if len(self) + len(new) > most:
            first = max(most - len(self), 0)
            raise InputError(
                f"the label {new[first]!r:.60} would be class number {len(self) + first + 1}, but "
                f"this learner allows at most {most} (max_classes): if the labels are classes, "
                f"allow more, or list all of them (classes=[...]); if they are typing errors, ids "
                f"or quantities, correct them"
            )
        whole = [int(label) if isinstance(label, float) else label for label in new]
        return Labels((*self.known, *whole))

    def numbers(self, labels: Iterable[Hashable]) -> list[int]:
        """Return the output index of each label; -1 if it is unknown."""
        return [self._index.get(label, -1) for label in labels]

    def read(self, y: Any, batch: bool | None, count: int) -> tuple[list[Hashable], bool]:
        """Parse y into labels; a tuple as long as the batch, as of a DataLoader, is a batch."""
        several = isinstance(y, tuple) and batch is not False and len(y) == count
        return labels_of(list(y) if several else y)

    def group(self, answer: Hashable) -> Hashable:
        """Return the label itself."""
        return answer

    def far(self, answers: Sequence[Hashable]) -> dict[int, float]:
        """Return no outliers: labels have no magnitude."""
        return {}

    def encode(self, answers: Sequence[Hashable], outputs: int) -> np.ndarray:
        """Encode labels as output indices, `[n]`."""
        return np.array(self.numbers(answers), dtype=np.int64)

    def decode(self, scores: Tensor) -> list[Any]:
        """Return the label with the largest logit of each row, `[n, classes]`."""
        return [self.known[index] for index in scores.argmax(1).tolist()]

    def shares(self, scores: Tensor) -> Tensor:
        """Convert logits to the probability of every class, `[n, classes]`."""
        return scores.double().softmax(1)

    def guess(self, scores: Tensor | None, count: int) -> np.ndarray:
        """Return the predicted output indices, `[n]`; -1 if no class is known."""
        if scores is None:
            return np.full(count, -1)
        found: np.ndarray
        if scores.device.type == "cpu" and scores.dtype != torch.bfloat16:
            found = scores.numpy().argmax(1)  # faster for a small batch
        else:
            found = scores.argmax(1).cpu().numpy()
        return found

    def predictions(self, predicted: Any, several: bool, count: int) -> list[Hashable]:
        """Parse the labels that `predict` returned, one for each example."""
        labels, batch = labels_of(predicted)
        if batch != several or len(labels) != count:
            raise not_predicted(predicted, several, count)
        return labels

    def guessed(self, predicted: Sequence[Hashable]) -> np.ndarray:
        """Encode earlier predictions as output indices, `[n]`."""
        return np.array(self.numbers(predicted))

    def judged(
        self, record: Record, answers: Sequence[Hashable], y: np.ndarray, guess: np.ndarray
    ) -> Record:
        """Return the record after evaluating predictions; y are the output indices."""
        return record.after(y, guess)

    def facts(self) -> dict[str, Any]:
        """Return the plain data to be saved, in addition to the labels."""
        return {}


def labels_of(y: object) -> tuple[list[Hashable], bool]:
    """Parse y into a list of labels; also return whether it is a batch.

    Lists, and arrays and tensors with one axis, are batches; anything else is one label.

    >>> labels_of("cat"), labels_of(["cat", "dog"]), labels_of(np.array([1, 2]))
    ((['cat'], False), (['cat', 'dog'], True), ([1, 2], True))
    """
    try:
        if isinstance(y, Tensor):
            y = y.detach().cpu().numpy()
        elif not isinstance(y, np.ndarray | np.generic | str | bytes) and hasattr(y, "__array__"):
            y = np.asarray(y)
    except Exception as error:  # an array-like object may raise anything
        raise InputError(f"the labels cannot be converted to an array: {error}") from None
    if isinstance(y, np.ma.MaskedArray) and np.ma.is_masked(y):
        raise InputError(MASKED)
    if isinstance(y, np.ndarray) and y.ndim:
        if y.ndim > 1:
            column = "y.reshape(-1) makes one of a single column; " if y.shape[1] == 1 else ""
            raise InputError(
                f"labels must have one axis, not the shape {list(y.shape)}: {column}for columns of "
                f"ones and zeros, create the learner with target='labels' and classes=[...]"
            )
        if y.dtype.kind in ALWAYS_LABELS:
            return y.tolist(), True
        return [_plain(label) for label in y.tolist()], True
    if isinstance(y, list):
        return [*y] if PLAIN.issuperset(map(type, y)) else [_plain(label) for label in y], True
    return [_plain(y.item() if isinstance(y, np.ndarray) else y)], False


def no_class(label: Hashable) -> str | None:
    """Return why a label cannot be a class, or None if it can.

    >>> no_class("cat"), no_class(3), no_class(3.0)
    (None, None, None)
    """
    if label is None:
        return "the label is None: drop examples without a label before you observe them"
    if isinstance(label, float) and not label.is_integer():
        return (
            f"the label {label!r} is not a class: to predict numbers, create the learner with "
            f"target='regression'; for classes, give integers or strings"
        )
    length = len(label) if isinstance(label, str | bytes | tuple) else 0
    huge = isinstance(label, int | float) and not -(2**63) <= label < 2**63
    if huge or length > LONGEST:
        return (
            f"the label {repr(label)[:40]}... is too large for a class: integers may have 64 bits, "
            f"and strings and tuples at most {LONGEST} elements"
        )
    return None


def as_number(label: Hashable) -> Hashable:
    """Convert a label that is a string with a decimal number to a float; leave others unchanged.

    >>> as_number("0.5"), as_number("1e-3"), as_number("12"), as_number("cat"), as_number("inf")
    (0.5, 0.001, '12', 'cat', 'inf')
    """
    if isinstance(label, str) and NUMBER.fullmatch(label):
        return float(label)
    return label


def not_predicted(predicted: Any, several: bool, count: int) -> InputError:
    """Return the error for a `predicted` that is not one prediction per example."""
    wanted = f"{count} predictions" if several else "one prediction"
    return InputError(f"predicted must be what predict returned: {wanted}, not {predicted!r:.60}")


def listed(classes: object) -> tuple[Hashable, ...]:
    """Parse the argument `classes`; a string is refused, since it is not a list of letters.

    >>> listed(range(3))
    (0, 1, 2)
    """
    if isinstance(classes, str | bytes) or not isinstance(classes, Iterable):
        raise InputError(f"classes must be a list of all labels there will be, not {classes!r}")
    found = tuple(labels_of(list(classes))[0])
    if not found:
        raise InputError("classes is empty: list all labels, or leave it out to learn new ones")
    return found


def _plain(label: Any) -> Hashable:
    if label is np.ma.masked:
        raise InputError(MASKED)
    if isinstance(label, np.generic) or (isinstance(label, Tensor) and label.dim() == 0):
        label = label.item()
    if type(label) is tuple:
        label = tuple(_plain(each) for each in label)
    try:
        hash(label)
    except TypeError:
        raise InputError(
            f"a label must be hashable, such as an integer or a string, not "
            f"{type(label).__name__}: for several labels per example, create the learner with "
            f"target='labels'"
        ) from None
    try:
        itself = not isinstance(label, Tensor) and bool(label == label)
    except Exception:  # such as pandas.NA, whose comparison with itself is undefined
        itself = False
    if not itself:
        raise InputError(
            f"{label!r} cannot be a label: give a string, a number or another hashable value, and "
            f"drop examples whose label is missing"
        )
    return label  # type: ignore[no-any-return]


def encoded(label: Hashable) -> Any:
    """Convert a label to plain data for a file; `decoded` reverses this.

    >>> encoded("cat"), encoded((1, b"a")), decoded(encoded((1, b"a")))
    ('cat', {'tuple': [1, {'bytes': '61'}]}, (1, b'a'))
    """
    if label is None or type(label) in (str, bool):
        return label
    if type(label) is int:
        return label if label.bit_length() < PLAIN_BITS else {"int": hex(label)}
    if type(label) is float:
        return label if math.isfinite(label) else {"float": repr(label)}
    if type(label) is bytes:
        return {"bytes": label.hex()}
    if type(label) is tuple:
        return {"tuple": [encoded(each) for each in label]}
    raise InputError(
        f"the label {label!r} cannot be written to a file: use strings, numbers, bytes, None, or "
        f"tuples of them"
    )


def decoded(data: Any) -> Hashable:
    """Convert plain data of a file back to the label."""
    if data is None or type(data) in (str, int, float, bool):
        return data  # type: ignore[no-any-return]
    if isinstance(data, dict) and len(data) == 1:
        ((kind, value),) = data.items()
        if kind in DECODERS and isinstance(value, str):
            return DECODERS[kind](value)
        if kind == "tuple" and isinstance(value, list):
            return tuple(decoded(each) for each in value)
    raise DataError(f"{data!r} is not a label in the format of recollect")
