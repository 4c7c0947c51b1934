"""Training: the fleet, the loop over a stream, evaluation, and several fleets at once."""

from recollect.errors import TimeUp
from recollect.train.checkpoint import Checkpoints
from recollect.train.devices import device_named
from recollect.train.fleet import Fleet
from recollect.train.job import Job, Result, Run
from recollect.train.loop import train
from recollect.train.parallel import train_all

__all__ = [
    "Checkpoints",
    "Fleet",
    "Job",
    "Result",
    "Run",
    "TimeUp",
    "device_named",
    "train",
    "train_all",
]
