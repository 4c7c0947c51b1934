"""Sources of one format, read one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Literal, final

from recollect.errors import InputError
from recollect.feeds.delimited import Delimited
from recollect.feeds.image_folder import ImageFolder
from recollect.feeds.jsonlines import JSONLines
from recollect.feeds.lines import STDIN, FileLines, InputLines, Lines
from recollect.feeds.parquet import Parquet
from recollect.feeds.record import Faults, Format, Layout, Position, Record
from recollect.feeds.sniff import Handling
from recollect.feeds.table import Moment, described

__all__ = ["KINDS", "Feed", "Reading", "open_feed"]

Kind = Literal["csv", "jsonl", "parquet", "images"]

KINDS: tuple[Kind, ...] = ("csv", "jsonl", "parquet", "images")
ENDINGS: dict[str, Kind] = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".data": "csv", ".jsonl": "jsonl",
    ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")


@dataclass(frozen=True)
class Reading:
    """How sources are to be read; what is left out is seen from them.

    `follow` waits at the end of the last source for more. `replayed` says that standard input
    begins again with what was read before. Messages, such as that a followed file was replaced,
    go to `say`. What is done with columns that are not numbers, or have holes, says `Handling`.
    Rows that are not `labelled` have no label among their columns: it comes from elsewhere.
    """

    kind: Kind | None = None
    label: str | None = None
    features: Sequence[str] = ()
    ignore: Sequence[str] = ()
    delimiter: str | None = None
    header: bool | None = None
    order: Literal["time", "name"] = "time"
    size: tuple[int, int] | None = None
    follow: bool = False
    skip_bad: bool = False
    replayed: bool = False
    missing: Literal["auto", "impute", "refuse"] = "auto"
    categorical: Sequence[str] = ()
    categories: int = 32
    drop_text: bool = False
    id: str | None = None
    keep: Sequence[str] = ()
    say: Callable[[str], None] = field(default=lambda text: None, compare=False)
    labelled: bool = True


@final
@dataclass
class Feed:
    """The records of several sources, which are read one after the other.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "a.csv"
    ...     _ = path.write_text("1.5,0.5,walk\\n0.1,0.2,stand\\n")
    ...     [record.label for record in open_feed([str(path)]).records() if record]
    ['walk', 'stand']
    """

    sources: Sequence[str]
    kind: Kind
    reader: Format
    faults: Faults
    has_id: bool = False
    of_labels: bool = False
    stopping: Event = field(default_factory=Event, repr=False, compare=False)

    def stop(self) -> None:
        """Take no more from standard input; what has been taken is still given."""
        self.stopping.set()

    def records(self, positions: Mapping[str, Position] | None = None) -> Iterator[Record | None]:
        """All records, in each source after its position; None if nothing came for a moment."""
        for source in self.sources:
            after = (positions or {}).get(source)
            yield from self.reader.read(source, tuple(after) if isinstance(after, list) else after)

    def now(self) -> Moment | None:
        """The state of the columns after the records that were given; nothing changes it."""
        return self.reader.table and self.reader.table.now()

    def continue_from(self, layout: Layout | None, state: Mapping[str, Any] | None) -> None:
        """Read on as the feed did of which this is the layout and the saved state."""
        self.reader.layout = layout
        if self.reader.table is not None and state is not None:
            self.reader.table.restore(state)

    @property
    def numbers(self) -> int | None:
        """How many of the features are numbers: those that come first; None if all are."""
        table = self.reader.table
        return None if table is None or table.size == table.numbers else table.numbers

    def described(self) -> str | None:
        """The columns that are learned from, in one line."""
        if self.reader.columns is None or self.reader.table is None:
            return None
        return described(*self.reader.columns, self.reader.table.columns)

    @property
    def lasting(self) -> bool:
        """Whether what was read can be read again, unlike what came through a pipe."""
        return STDIN not in self.sources

    def where(self, record: Record) -> str:
        """Where a record is, in words."""
        if self.kind == "images":
            return str(Path(record.source) / str(record.position[-1]))
        unit = "row" if self.kind == "parquet" else "line"
        return f"{record.source}, {unit} {record.position[-1]}"


def open_feed(
    sources: str | Path | Sequence[str | Path],
    reading: Reading | None = None,
    layout: Layout | None = None,
) -> Feed:
    """A feed of files, of folders of images, or of standard input (`-`).

    The format follows from a file's name, unless the reading says it. `layout` is that of an
    earlier feed which this one continues.
    """
    how = reading or Reading()
    names = [str(each) for each in ([sources] if isinstance(sources, str | Path) else sources)]
    if not names:
        raise InputError("there is nothing to read: give a file, a folder of images, or -")
    if STDIN in names and len(names) > 1:
        raise InputError("standard input (-) is read alone, not with files")
    for source in names:
        if source != STDIN and not Path(source).exists():
            raise InputError(f"there is no file or folder {source!r}")
    kind, faults, stopping = how.kind or _kind(names), Faults(how.skip_bad), Event()
    followed = names[-1] if how.follow else None
    lines: Lines = FileLines(followed, how.say)
    if STDIN in names:
        if kind in ("parquet", "images"):
            raise InputError(f"{kind} cannot come from standard input: give a path")
        lines = InputLines(how.replayed, stopping.is_set)
    columns = how.features, how.ignore
    handling = Handling(
        how.missing, how.categorical, how.categories, how.drop_text, how.id, how.keep, how.say,
        how.labelled,
    )  # fmt: skip
    reader: Format
    if kind == "csv":
        tabs = all(Path(source).suffix.lower() == ".tsv" for source in names)
        delimiter = how.delimiter or ("\t" if tabs else ",")
        reader = Delimited(
            how.label, *columns, delimiter, how.header, lines, faults, layout, handling
        )
    elif kind == "jsonl":
        reader = JSONLines(how.label or "label", *columns, lines, faults, layout, handling)
    elif kind == "images":
        reader = ImageFolder(how.order, how.size, followed, faults, layout)
    elif followed is not None:
        raise InputError("a Parquet file does not grow: leave follow=True out")
    else:
        reader = Parquet(how.label, *columns, faults, layout, handling)
    return Feed(names, kind, reader, faults, how.id is not None, stopping=stopping)


def _kind(sources: Sequence[str]) -> Kind:
    """The one format of all sources, from their names; a pipe has rows unless the reading says."""
    kinds: dict[Kind, str] = {}
    for source in sources:
        path = Path(source)
        found = "images" if path.is_dir() else ENDINGS.get(path.suffix.lower())
        found = "csv" if source == STDIN else found
        if found is None and path.suffix.lower() in COMPRESSED:
            raise InputError(
                f"{source} is compressed: unpack it, or give what gunzip -c prints to standard "
                f"input (-)"
            )
        if found is None:
            raise InputError(
                f"cannot see from its name what {source} is: give kind, one of {', '.join(KINDS)}"
            )
        kinds.setdefault(found, source)
    if len(kinds) > 1:
        raise InputError(f"all sources must be of one format, not {' and '.join(kinds.values())}")
    return next(iter(kinds))
