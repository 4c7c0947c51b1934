"""What a reader gives: one example after the other, and where each of them ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from numpy.typing import NDArray

from recollect.errors import DataError

if TYPE_CHECKING:
    from recollect.feeds.table import Table

__all__ = ["Faults", "Format", "Label", "Layout", "Malformed", "Position", "Record", "parts"]

Label = str | int | float | bool
Position = tuple[int | str, ...]
Layout = Mapping[str, Any]

OTHER_FILE = "it is another file now (fresh=True of a LiveStream starts over)"


class Record(NamedTuple):
    """One example: its features, its label (None if it has none), and where it came from.

    `x` is a float32 array, or a uint8 array `[channels, height, width]` for an image. Reading can
    continue behind it from `position`, which is plain data, in the source of that name. `id` and
    `kept` are the columns that were asked to pass through.
    """

    x: NDArray[Any]
    label: Label | None
    source: str
    position: Position
    id: Any = None
    kept: Mapping[str, Any] = MappingProxyType({})


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
            raise DataError(f"{where}: {why} (skip_bad=True leaves such rows out)")
        self.count += 1


class Format(Protocol):
    """A way to read a source.

    `layout` says, as plain data, what the first record fixed for all that follow (which columns,
    which shape). It is None before that, unless it is given. `table` makes features of rows, if
    they have columns, and has a state.
    """

    layout: Layout | None

    @property
    def table(self) -> Table | None:
        """What makes features of rows; None for images, and before the first record."""

    @property
    def columns(self) -> tuple[str | None, Sequence[str]] | None:
        """The names of the label, if there is one, and of the features; None as for `table`."""

    def read(self, source: str, position: Position | None) -> Iterator[Record | None]:
        """The records of a source after a position; None whenever nothing came for a moment."""


def parts(source: str, position: object, *kinds: type) -> list[Any]:
    """The parts of a position; refused unless they are of these kinds, and none is below 0.

    >>> parts("a.csv", (20, 2), int, int), parts("a.csv", None, int, int)
    ([20, 2], [0, 0])
    >>> parts("a.csv", (20, "2"), int, int)
    Traceback (most recent call last):
    recollect.errors.DataError: reading a.csv cannot continue from (20, '2'): no record ends there
    """
    if position is None:
        return [kind() for kind in kinds]
    found = list(position) if isinstance(position, tuple | list) else [None]
    if [*map(type, found)] != [*kinds] or any(isinstance(p, int) and p < 0 for p in found):
        raise DataError(
            f"reading {source} cannot continue from {position!r:.60}: no record ends there"
        )
    return found
