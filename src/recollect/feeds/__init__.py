"""Read CSV, JSON lines, Parquet and image folders as streams, one example at a time."""

from recollect.feeds.columns import Handling
from recollect.feeds.delimited import Delimited
from recollect.feeds.feed import KINDS, Feed, Reading, open_feed, open_labels
from recollect.feeds.image_folder import ImageFolder
from recollect.feeds.jsonlines import JSONLines
from recollect.feeds.lines import STDIN, FileLines, InputLines
from recollect.feeds.parquet import Parquet
from recollect.feeds.record import Faults, Format, Record

__all__ = [
    "KINDS",
    "STDIN",
    "Delimited",
    "Faults",
    "Feed",
    "FileLines",
    "Format",
    "Handling",
    "ImageFolder",
    "InputLines",
    "JSONLines",
    "Parquet",
    "Reading",
    "Record",
    "open_feed",
    "open_labels",
]
