"""Learn from a stream that keeps changing, without forgetting, in constant memory."""

from recollect.core.losses import cross_entropy, squared_distance
from recollect.errors import DataError, DivergedError, InputError, RecollectError
from recollect.experiments import Results, run
from recollect.learner import Learner, Metrics
from recollect.methods import DER, ER, SGD, DERpp, Joint, Method, Step
from recollect.nets import MLP, ResNet18
from recollect.streams import from_arrays
from recollect.train import Fleet, TimeUp

__all__ = [
    "DER",
    "ER",
    "MLP",
    "SGD",
    "DERpp",
    "DataError",
    "DivergedError",
    "Fleet",
    "InputError",
    "Joint",
    "Learner",
    "Method",
    "Metrics",
    "RecollectError",
    "ResNet18",
    "Results",
    "Step",
    "TimeUp",
    "cross_entropy",
    "from_arrays",
    "run",
    "squared_distance",
]

__version__ = "0.1.0"
