"""Streams: sequences of training examples in tasks, with test sets."""

from recollect.streams.arrays import from_arrays
from recollect.streams.benchmarks import BENCHMARKS, Benchmark, benchmark, twin
from recollect.streams.builders import blurred, imbalanced, long_tailed, recurring
from recollect.streams.data import Dataset, DataUnavailable
from recollect.streams.folders import from_folder
from recollect.streams.joint import Joint
from recollect.streams.mnist360 import Mnist360
from recollect.streams.stream import Batch, Setting, Stream
from recollect.streams.tasks import TaskStream
from recollect.streams.torch_datasets import from_dataset

__all__ = [
    "BENCHMARKS",
    "Batch",
    "Benchmark",
    "DataUnavailable",
    "Dataset",
    "Joint",
    "Mnist360",
    "Setting",
    "Stream",
    "TaskStream",
    "benchmark",
    "blurred",
    "from_arrays",
    "from_dataset",
    "from_folder",
    "imbalanced",
    "long_tailed",
    "recurring",
    "twin",
]
