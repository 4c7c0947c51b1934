"""The labels that a learner knows, and the output of its network that belongs to each."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from torch import Tensor

from recollect.errors import DataError, InputError
from recollect.learner.record import Record

__all__ = ["Labels", "as_number", "decoded", "encoded", "labels_of", "listed", "no_class",
           "predictions_of"]  # fmt: skip

PLAIN_BITS = 1024
MOST, LONGEST = 1000, 1000  # classes, and characters in the name of one
DECODERS: dict[str, Callable[[str], Hashable]] = {
    "bytes": bytes.fromhex, "int": lambda text: int(text, 16), "float": float,
}  # fmt: skip
NUMBER = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?", re.ASCII)
ALWAYS_LABELS = "iubUS"  # numpy's letters for whole numbers, truth values, texts and bytes


@final
@dataclass(frozen=True)
class Labels:
    """Labels in the order of their arrival; label number n belongs to output n.

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
            raise InputError("a label occurs twice among the classes")
        object.__setattr__(self, "_index", index)

    def __len__(self) -> int:
        return len(self.known)

    def __contains__(self, label: object) -> bool:
        return label in self._index

    def with_new(self, labels: Iterable[Hashable], most: int = MOST) -> Labels:
        """These labels and the unknown ones of `labels`; refused if the classes are fixed.

        Refused are also labels that are not classes, and more than `most` of them.
        """
        if all(label in self._index for label in labels):
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
            raise InputError(
                f"the label {new[0]!r:.60} would be class number {len(self) + len(new)}, and this "
                f"learner takes {most} at most (max_classes): if the labels are classes, make one "
                f"that takes more, or say which there will be (classes=[...]); if they are typing "
                f"errors, ids or quantities, correct them before"
            )
        whole = [int(label) if isinstance(label, float) else label for label in new]
        return Labels((*self.known, *whole))

    def numbers(self, labels: Iterable[Hashable]) -> list[int]:
        """The outputs of known labels; -1 for one that is unknown."""
        return [self._index.get(label, -1) for label in labels]

    def read(self, y: Any, batch: bool | None, count: int) -> tuple[list[Hashable], bool]:
        """The labels in y, and whether it is a batch of them, as a tuple of a DataLoader may be."""
        several = isinstance(y, tuple) and batch is not False and len(y) == count
        return labels_of(list(y) if several else y)

    def group(self, answer: Hashable) -> Hashable:
        """An example counts for its label."""
        return answer

    def far(self, answers: Sequence[Hashable]) -> dict[int, float]:
        """No label is far outside of others."""
        return {}

    def encode(self, answers: Sequence[Hashable], outputs: int) -> np.ndarray:
        """The numbers of known labels, `[n]`."""
        return np.array(self.numbers(answers), dtype=np.int64)

    def decode(self, scores: Tensor) -> list[Any]:
        """The labels with the largest scores `[n, classes]`."""
        return [self.known[index] for index in scores.argmax(1).tolist()]

    def shares(self, scores: Tensor) -> Tensor:
        """The probability of every class, `[n, classes]`."""
        return scores.double().softmax(1)

    def guess(self, scores: Tensor | None, count: int) -> np.ndarray:
        """The outputs `[n]` that scores predict; -1 as long as no class is known."""
        if scores is None:
            return np.full(count, -1)
        found: np.ndarray = scores.argmax(1).cpu().numpy()
        return found

    def guessed(self, predicted: Sequence[Hashable]) -> np.ndarray:
        """The outputs `[n]` that were predicted before."""
        return np.array(self.numbers(predicted))

    def judged(
        self, record: Record, answers: Sequence[Hashable], y: np.ndarray, guess: np.ndarray
    ) -> Record:
        """The record after these labels, whose numbers are y."""
        return record.after(y, guess)

    def facts(self) -> dict[str, Any]:
        """What is saved as plain data, besides the labels."""
        return {}


def labels_of(y: object) -> tuple[list[Hashable], bool]:
    """The labels that y holds, and whether it is a batch of them.

    Lists, arrays and tensors with one axis are batches; anything else is one label.

    >>> labels_of("cat"), labels_of(["cat", "dog"]), labels_of(np.array([1, 2]))
    ((['cat'], False), (['cat', 'dog'], True), ([1, 2], True))
    """
    try:
        if isinstance(y, Tensor):
            y = y.detach().cpu().numpy()
        elif not isinstance(y, np.ndarray | np.generic | str | bytes) and hasattr(y, "__array__"):
            y = np.asarray(y)
    except Exception as error:  # whatever an object that calls itself an array may do
        raise InputError(f"the labels cannot be read: {error}") from None
    if isinstance(y, np.ma.MaskedArray) and np.ma.is_masked(y):
        raise InputError("a label is masked, so there is none to learn")
    if isinstance(y, np.ndarray) and y.ndim:
        if y.ndim > 1:
            raise InputError(f"labels must have one axis, not the shape {list(y.shape)}")
        if y.dtype.kind in ALWAYS_LABELS:
            return y.tolist(), True
        return [_plain(label) for label in y.tolist()], True
    if isinstance(y, list):
        return [_plain(label) for label in y], True
    return [_plain(y.item() if isinstance(y, np.ndarray) else y)], False


def no_class(label: Hashable) -> str | None:
    """Why a label cannot become a class, or None if it can.

    >>> no_class("cat"), no_class(3), no_class(3.0)
    (None, None, None)
    """
    if label is None:
        return "None is not a label: leave examples without one out, or only predict them"
    if isinstance(label, float) and not label.is_integer():
        return (
            f"the label {label!r} is not a class: for a quantity to be estimated, make the learner "
            f"with target='regression'; for classes, give whole numbers or texts"
        )
    length = len(label) if isinstance(label, str | bytes | tuple) else 0
    huge = isinstance(label, int | float) and not -(2**63) <= label < 2**63
    if huge or length > LONGEST:
        return (
            f"a label is too large for the name of a class ({repr(label)[:40]}...): whole numbers "
            f"have at most 64 bits, and texts and tuples {LONGEST} elements"
        )
    return None


def as_number(label: Hashable) -> Hashable:
    """The number that the text of a label is, if it has a decimal point and is one.

    >>> as_number("0.5"), as_number("1e-3"), as_number("12"), as_number("cat"), as_number("inf")
    (0.5, 0.001, '12', 'cat', 'inf')
    """
    if isinstance(label, str) and NUMBER.fullmatch(label):
        return float(label)
    return label


def predictions_of(predicted: Any, count: int, several: bool) -> list[Hashable]:
    """The labels that were predicted; refused unless there is one for every example."""
    labels, batch = labels_of(predicted)
    if batch != several or len(labels) != count:
        raise InputError(
            f"predicted must be what predict gave: {f'{count} labels' if several else 'a label'}, "
            f"not {predicted!r:.60}"
        )
    return labels


def listed(classes: object) -> tuple[Hashable, ...]:
    """The labels of a list of classes; a text is refused, since it is not a list of letters.

    >>> listed(range(3))
    (0, 1, 2)
    """
    if isinstance(classes, str | bytes) or not isinstance(classes, Iterable):
        raise InputError(f"classes must be a list of all labels there will be, not {classes!r}")
    found = tuple(labels_of(list(classes))[0])
    if not found:
        raise InputError("classes lists no label: leave it out if labels are to arrive")
    return found


def _plain(label: Any) -> Hashable:
    if label is np.ma.masked:
        raise InputError("a label is masked, so there is none to learn")
    if isinstance(label, np.generic) or (isinstance(label, Tensor) and label.dim() == 0):
        label = label.item()
    if type(label) is tuple:
        label = tuple(_plain(each) for each in label)
    try:
        hash(label)
    except TypeError:
        raise InputError(
            f"a label must be hashable, such as a number or a text, not {type(label).__name__}"
        ) from None
    try:
        itself = not isinstance(label, Tensor) and bool(label == label)
    except Exception:  # such as a missing value, which neither equals itself nor does not
        itself = False
    if not itself:
        raise InputError(f"{label!r} cannot be a label")
    return label  # type: ignore[no-any-return]


def encoded(label: Hashable) -> Any:
    """A label as plain data, from which `decoded` makes an equal one.

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
        f"the label {label!r} cannot be written to a file: texts, numbers, bytes, None and tuples "
        f"of them can"
    )


def decoded(data: Any) -> Hashable:
    """The label that `encoded` wrote."""
    if data is None or type(data) in (str, int, float, bool):
        return data  # type: ignore[no-any-return]
    if isinstance(data, dict) and len(data) == 1:
        ((kind, value),) = data.items()
        if kind in DECODERS and isinstance(value, str):
            return DECODERS[kind](value)
        if kind == "tuple" and isinstance(value, list):
            return tuple(decoded(each) for each in value)
    raise DataError(f"{data!r} is not a label that was written by recollect")
