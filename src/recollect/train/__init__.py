"""Training: fleets, the loop over a stream, evaluation, and training fleets in parallel."""

from recollect.errors import TimeUp
from recollect.train.checkpoint import Checkpoints
from recollect.train.curves import Curves
from recollect.train.details import Callback, Details, Point
from recollect.train.devices import device_named
from recollect.train.encoding import encode
from recollect.train.evaluate import accuracy
from recollect.train.fleet import Fleet
from recollect.train.job import Job, Run
from recollect.train.loop import train
from recollect.train.networks import inputs_of
from recollect.train.parallel import train_all
from recollect.train.result import Result

__all__ = [
    "Callback",
    "Checkpoints",
    "Curves",
    "Details",
    "Fleet",
    "Job",
    "Point",
    "Result",
    "Run",
    "TimeUp",
    "accuracy",
    "device_named",
    "encode",
    "inputs_of",
    "train",
    "train_all",
]
