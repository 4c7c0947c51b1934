"""What a reader gives: one example after the other, and where each of them ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from recollect.errors import DataError

__all__ = [
    "Faults",
    "Format",
    "Label",
    "Layout",
    "Malformed",
    "Position",
    "Record",
    "check_position",
    "numbers",
]

Label = str | int | float | bool
Position = tuple[int | str, ...]
Layout = Mapping[str, Any]

LARGEST = float(np.finfo(np.float32).max)


class Record(NamedTuple):
    """One example: its features, its label (None if it has none), and where it came from.

    `x` is a float32 array, or a uint8 array `[channels, height, width]` for an image. Reading can
    continue behind it from `position`, which is plain data, in the source of that name.
    """

    x: NDArray[Any]
    label: Label | None
    source: str
    position: Position


class Malformed(Exception):  # noqa: N818 - not an error for the user until its position is added
    """Why a row cannot be used, in a few words; the reader adds where it is."""


@dataclass
class Faults:
    """What happens to a row that cannot be used: an error, or it is left out and counted.

    >>> faults = Faults(skip=True)
    >>> faults.meet("a.csv, line 3", Malformed("it has 2 columns, not 4"))
    >>> faults.count
    1
    """

    skip: bool = False
    count: int = 0

    def meet(self, where: str, why: Malformed) -> None:
        """Count the row, or raise a DataError that says where it is and what is wrong with it."""
        if not self.skip:
            raise DataError(f"{where}: {why} (--skip-bad leaves such rows out)")
        self.count += 1


class Format(Protocol):
    """A way to read a source.

    `layout` says, as plain data, what the first record fixed for all that follow (which columns,
    which shape). It is None before that, unless it is given.
    """

    layout: Layout | None

    def read(self, source: str, position: Position | None) -> Iterator[Record | None]:
        """The records of a source after a position; None whenever nothing came for a moment."""


def check_position(source: str, position: object, *kinds: type) -> None:
    """Refuse a position that no record of a reader has: parts of these kinds, none below 0.

    >>> check_position("a.csv", (20, 2), int, int)
    >>> check_position("a.csv", (20, "2"), int, int)
    Traceback (most recent call last):
    recollect.errors.DataError: reading a.csv cannot continue from (20, '2'): no record ends there
    """
    if position is None:
        return
    parts = list(position) if isinstance(position, tuple | list) else [None]
    whole = [*map(type, parts)] == [*kinds]
    if not whole or any(part < 0 for part in parts if isinstance(part, int)):
        raise DataError(
            f"reading {source} cannot continue from {position!r:.60}: no record ends there"
        )


def numbers(values: Any) -> NDArray[np.float32]:
    """Numbers as float32, if all of them are finite there.

    >>> numbers([1, 2.5])
    array([1. , 2.5], dtype=float32)
    """
    try:
        wide = np.asarray(values, dtype=np.float64)
    except OverflowError:
        raise Malformed("a number is too large") from None
    except (TypeError, ValueError):
        raise Malformed("its features are not numbers in rows of equal length") from None
    # A comparison with NaN is false: one test covers what is too large and what is not a number.
    # The sum of squares is a quick one that all but extreme rows pass.
    if not np.vdot(wide, wide) <= LARGEST and not bool((np.abs(wide) <= LARGEST).all()):
        raise Malformed("a feature is not a finite number of 32 bits")
    return wide.astype(np.float32)
