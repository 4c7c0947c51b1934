"""Records that readers yield, positions to resume from, and the handling of bad rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from numpy.typing import NDArray

from recollect.errors import DataError

if TYPE_CHECKING:
    from recollect.feeds.table import Table

Label = str | int | float | bool | tuple[str | int | float | bool, ...]
Position = tuple[int | str, ...]
Layout = Mapping[str, Any]

OTHER_FILE = (
    "it is not the same file as before (fresh=True of a LiveStream starts over); to learn from it "
    "too, rename it and keep the folder"
)


class Record(NamedTuple):
    """One example: its features, its label (None if unlabelled), and where it was read.

    `x` is a float32 array, or a uint8 array `[channels, height, width]` for an image. `position` is
    plain data from which reading `source` can continue after this record: in a text file, the byte
    and the line where it ends, and checksums that recognise the file; in Parquet, the row and a
    checksum; of an image, its time or name, and its path. `id` and `kept` are the
    columns to pass through (`Handling.id` and `Handling.keep`).
    """

    x: NDArray[Any]
    label: Label | None
    source: str
    position: Position
    id: Any = None
    kept: Mapping[str, Any] = MappingProxyType({})


class Malformed(Exception):  # noqa: N818 - not an error for the user until its position is added
    """A row cannot be used, with the reason; the reader adds its position."""


@dataclass
class Faults:
    """Handle bad rows: raise an error, or with `skip` leave them out and count them.

    >>> faults = Faults(skip=True)
    >>> faults.meet("a.csv, line 3", Malformed("it has 2 columns, not 4"))
    >>> faults.count
    1
    """

    skip: bool = False
    count: int = 0

    def meet(self, where: str, why: Malformed) -> None:
        """Count a bad row, or raise `DataError` with its position and what is wrong with it."""
        if not self.skip:
            raise DataError(f"{where}: {why} (skip_bad=True leaves such rows out)")
        self.count += 1


class Format(Protocol):
    """The interface of a reader of one file format.

    `layout` is plain data that the first records determine for all others, such as the columns or
    the shape. It is None before that, unless it is given.
    """

    layout: Layout | None

    @property
    def table(self) -> Table | None:
        """The table that converts rows to features; None for images and before the first record."""

    @property
    def columns(self) -> tuple[str | None, Sequence[str]] | None:
        """The label name (None if unlabelled) and the feature names; None if `table` is None."""

    def read(self, source: str, position: Position | None) -> Iterator[Record | None]:
        """Yield the records of a source after a position; None while no data arrives."""


def position_parts(
    source: str, position: object, *kinds: type, more: Sequence[type] = ()
) -> list[Any]:
    """Return the parts of a position; raise `DataError` on a wrong type or a negative number.

    A position has all parts of the kinds `more`, or none of them.

    >>> position_parts("a.csv", (20, 2), int, int), position_parts("a.csv", None, int, int)
    ([20, 2], [0, 0])
    >>> position_parts("a.csv", (20, "2"), int, int)
    Traceback (most recent call last):
    recollect.errors.DataError: reading a.csv cannot continue from (20, '2'): no record ends there
    """
    if position is None:
        return [kind() for kind in kinds]
    found = list(position) if isinstance(position, tuple | list) else [None]
    right = [*map(type, found)] in ([*kinds], [*kinds, *more])
    if not right or any(isinstance(p, int) and p < 0 for p in found):
        raise DataError(
            f"reading {source} cannot continue from {position!r:.60}: no record ends there"
        )
    return found
