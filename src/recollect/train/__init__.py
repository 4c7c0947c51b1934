"""Training: the fleet, the loop over a stream, evaluation, and several fleets at once."""

from recollect.train.fleet import Fleet
from recollect.train.job import Job, Result, Run
from recollect.train.loop import train
from recollect.train.parallel import train_all

__all__ = ["Fleet", "Job", "Result", "Run", "train", "train_all"]
