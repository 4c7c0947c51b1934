"""Find, verify and load the data sets of benchmarks."""

from recollect.streams.data.catalogue import CATALOGUE, Entry, entry, load, look
from recollect.streams.data.dataset import Dataset
from recollect.streams.data.files import Finding
from recollect.streams.data.sources import DataUnavailable

__all__ = [
    "CATALOGUE",
    "DataUnavailable",
    "Dataset",
    "Entry",
    "Finding",
    "entry",
    "load",
    "look",
]
