"""Open sources of one format as a single stream of records, or of ids and labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any, Literal, final

from recollect.errors import InputError
from recollect.feeds.columns import Handling, described
from recollect.feeds.delimited import Delimited
from recollect.feeds.image_folder import KINDS as IMAGES
from recollect.feeds.image_folder import ImageFolder, files_in
from recollect.feeds.jsonlines import JSONLines
from recollect.feeds.lines import COMPRESSED, STDIN, FileLines, InputLines, Lines, compressed
from recollect.feeds.parquet import Parquet
from recollect.feeds.record import Faults, Format, Layout, Malformed, Position, Record
from recollect.feeds.table import TableState

Kind = Literal["csv", "jsonl", "parquet", "images"]

KINDS: tuple[Kind, ...] = ("csv", "jsonl", "parquet", "images")
ENDINGS: dict[str, Kind] = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".data": "csv", ".jsonl": "jsonl",
    ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
LONGEST = 1000


@dataclass(frozen=True)
class Reading(Handling):
    """Options for reading sources; options that are None are inferred from the sources.

    `follow` waits for more data at the end of the last source. `replayed` means that standard input
    starts from its beginning, so that the part that was read before is skipped. `say` is called
    with messages, such as that a followed file was replaced. The options for categories, text,
    missing values and labels are those of `Handling`.
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

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("label", "id", "delimiter"):
            given = getattr(self, name)
            if not isinstance(given, str | None):
                raise InputError(f"{name} must be text, such as {str(given)!r}, not {given!r}")
        for name in ("features", "ignore", "categorical", "keep"):
            given = getattr(self, name)
            if isinstance(given, str) or not all(isinstance(each, str) for each in given):
                raise InputError(
                    f"{name} must be a list of names, such as ['a', '2'], not {given!r}"
                )


@final
@dataclass
class Feed:
    """A stream of records from one or several sources, read in order.

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
        """Stop reading standard input; data that was already read is still returned."""
        self.stopping.set()

    def records(self, positions: Mapping[str, Position] | None = None) -> Iterator[Record | None]:
        """Yield the records of each source after its position; None while no data arrives."""
        for source in self.sources:
            after = (positions or {}).get(source)
            yield from self.reader.read(source, tuple(after) if isinstance(after, list) else after)

    def now(self) -> TableState | None:
        """Return an immutable snapshot of the column state after the records read so far."""
        return self.reader.table and self.reader.table.now()

    def continue_from(self, layout: Layout | None, state: Mapping[str, Any] | None) -> None:
        """Restore the layout and the column state that were saved from an earlier feed."""
        self.reader.layout = layout
        if self.reader.table is not None and state is not None:
            self.reader.table.restore(state)

    @property
    def numbers(self) -> int | None:
        """The number of numeric features, which come first; None if all features are numeric."""
        table = self.reader.table
        return None if table is None or table.size == table.numbers else table.numbers

    def described(self) -> str | None:
        """Summarise the feature columns in one line."""
        if self.reader.columns is None or self.reader.table is None:
            return None
        return described(*self.reader.columns, self.reader.table.columns)

    @property
    def lasting(self) -> bool:
        """Whether the sources can be read again, which standard input cannot."""
        return STDIN not in self.sources

    def where(self, record: Record) -> str:
        """Describe where a record was read, for messages."""
        if self.kind == "images":
            return str(Path(record.source) / str(self.place(record)))
        unit = "row" if self.kind == "parquet" else "line"
        return f"{record.source}, {unit} {self.place(record)}"

    def place(self, record: Record) -> int | str:
        """Return the line at which a record ends, its row in Parquet, or the path of an image."""
        return record.position[0 if self.kind == "parquet" else 1]


def open_feed(
    sources: str | Path | Sequence[str | Path],
    reading: Reading | None = None,
    layout: Layout | None = None,
) -> Feed:
    """Open files, image folders or standard input (`-`) as a feed.

    Without `reading.kind`, the format is inferred from the file name. To continue an earlier feed,
    give its `layout`.
    """
    how = Reading() if reading is None else reading
    if not isinstance(how, Reading):
        raise InputError(f"reading must be a Reading, such as Reading(label='kind'), not {how!r}")
    names = [str(each) for each in ([sources] if isinstance(sources, str | Path) else sources)]
    if not names:
        raise InputError("no source is given: give a file, a folder of images, or -")
    if STDIN in names and len(names) > 1:
        raise InputError("standard input (-) cannot be combined with files")
    for source in names:
        if source != STDIN and not Path(source).exists():
            raise InputError(f"there is no file or folder {source!r}")
    kind, faults, stopping = how.kind or _kind(names), Faults(how.skip_bad), Event()
    if how.kind is None:
        for problem in filter(None, map(_tables_in, filter(Path.is_dir, map(Path, names)))):
            if not how.follow:  # otherwise images may arrive later
                raise InputError(problem)
            how.say(problem)
    followed = names[-1] if how.follow else None
    lines: Lines = FileLines(followed, how.say)
    if STDIN in names:
        if kind in ("parquet", "images"):
            raise InputError(f"{kind} cannot be read from standard input: give a path")
        lines = InputLines(how.replayed, stopping.is_set)
    columns = how.features, how.ignore
    common: dict[str, Any] = {"faults": faults, "layout": layout, "how": how}
    reader: Format
    if kind == "csv":
        tabs = all(Path(source).suffix.lower() == ".tsv" for source in names)
        delimiter = how.delimiter or ("\t" if tabs else ",")
        reader = Delimited(how.label, *columns, delimiter, how.header, source=lines, **common)
    elif kind == "jsonl":
        reader = JSONLines(how.label or "label", *columns, source=lines, **common)
    elif kind == "images":
        reader = ImageFolder(how.order, how.size, followed, faults, layout)
    elif followed is not None:
        raise InputError("a Parquet file cannot be followed: leave out follow=True")
    else:
        reader = Parquet(how.label, *columns, **common)
    return Feed(names, kind, reader, faults, how.id is not None, stopping=stopping)


def _kind(sources: Sequence[str]) -> Kind:
    """Infer the format from the names of the sources; standard input is CSV."""
    kinds: dict[Kind, str] = {}
    for source in sources:
        path = Path(source)
        found = "images" if path.is_dir() else ENDINGS.get(path.suffix.lower())
        found = "csv" if source == STDIN else found
        if found is None and path.suffix.lower() in COMPRESSED:
            raise InputError(f"{source} {compressed(path.suffix.lower())}")
        if found is None:
            raise InputError(
                f"cannot infer the format of {source} from its name: give kind, one of "
                f"{', '.join(KINDS)}"
            )
        kinds.setdefault(found, source)
    if len(kinds) > 1:
        raise InputError(
            f"all sources must have the same format: {' and '.join(kinds.values())} differ"
        )
    return next(iter(kinds))


def _tables_in(folder: Path) -> str | None:
    """Describe the files of other formats in a folder without images, and what to do."""
    endings = Counter(Path(entry.path).suffix.lower() for entry in files_in(folder))
    if any(ending in IMAGES for ending in endings):
        return None
    tables = [(ending, count) for ending, count in endings.most_common() if ending in ENDINGS]
    if not tables:
        return None
    counts = ", ".join(f"{n} {ending} file{'s' if n > 1 else ''}" for ending, n in tables)
    return (
        f"the folder {folder} has no images, but {counts}: give the files themselves, such as "
        f"{folder / ('*' + tables[0][0])}"
    )


def open_labels(sources: str | Path | Sequence[str | Path], reading: Reading) -> Feed:
    """Open a feed of ids and labels, for the `labels` argument of `LiveStream`.

    `reading.id` names the id column, and `reading.label` the label column; its default is the last
    column, or the key "label" in JSON lines. Other columns are ignored.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "labels.csv"
    ...     _ = path.write_text("request,when,outcome\\nr1,Monday,late\\nr2,Monday,in time\\n")
    ...     feed = open_labels(path, Reading(id="request"))
    ...     [labels_of(record) for record in feed.records() if record]
    [('r1', 'late'), ('r2', 'in time')]
    """
    name = reading.id
    if name is None:
        raise InputError("labels are matched by id: give the id column, as in Reading(id='...')")
    # The id is read as a category and passed through; these rows are not used as features.
    how = replace(
        reading, features=[name], ignore=(), missing="auto", categorical=[name], categories=1,
        drop_text=False, id=None, keep=[name], labelled=True,
    )  # fmt: skip
    feed = open_feed(sources, how)
    if feed.kind == "images":
        raise InputError("labels must be CSV, JSON lines or Parquet, not images")
    return replace(feed, of_labels=True)


def labels_of(record: Record) -> tuple[str, Any]:
    """Return the id and the label of a record; raise `Malformed` if one is missing."""
    key = key_of(*record.kept.values())
    if key is None:
        raise Malformed("it has no id")
    if record.label is None:
        raise Malformed("it has no label")
    return key, record.label


def key_of(value: Any) -> str | None:
    """Convert an id to text, which is compared across file formats; None if it is missing.

    >>> key_of(7), key_of(7.0), key_of("7"), key_of(""), key_of(float("nan"))
    ('7', '7', '7', None, None)
    """
    if value is None or value == "" or value != value:  # NaN marks a missing cell
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list | dict) or len(str(value)) > LONGEST:
        raise Malformed(f"an id must be a number or a text of at most {LONGEST} characters")
    return str(value)
