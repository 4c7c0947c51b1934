"""Learn from a stream that keeps changing, without forgetting, in constant memory."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect.core.losses import cross_entropy, squared_distance
    from recollect.errors import DataError, DivergedError, InputError, RecollectError, TimeUp
    from recollect.experiments.comparison import compare
    from recollect.experiments.results import Results
    from recollect.experiments.run import run
    from recollect.experiments.search import search
    from recollect.learner import Learner, Metrics, prometheus
    from recollect.live import LiveStream
    from recollect.methods import (
        DER,
        ER,
        SGD,
        DERpp,
        Field,
        Joint,
        Method,
        Needs,
        Query,
        Replay,
        Setup,
        Spec,
        Step,
        Task,
        hyper,
    )
    from recollect.nets import MLP, ResNet18
    from recollect.streams import from_arrays, from_dataset, from_folder
    from recollect.train import Callback, Fleet, encode

__all__ = [
    "DER",
    "ER",
    "MLP",
    "SGD",
    "Callback",
    "DERpp",
    "DataError",
    "DivergedError",
    "Field",
    "Fleet",
    "InputError",
    "Joint",
    "Learner",
    "LiveStream",
    "Method",
    "Metrics",
    "Needs",
    "Query",
    "RecollectError",
    "Replay",
    "ResNet18",
    "Results",
    "Setup",
    "Spec",
    "Step",
    "Task",
    "TimeUp",
    "compare",
    "cross_entropy",
    "encode",
    "from_arrays",
    "from_dataset",
    "from_folder",
    "hyper",
    "prometheus",
    "run",
    "search",
    "squared_distance",
]

__version__ = "0.1.0"

logging.getLogger("recollect").addHandler(logging.NullHandler())  # applications configure it

# Names are imported on first use: importing PyTorch takes seconds, and `recollect --version` or
# a feed that reads files does not need it.
_HOMES = {
    "core.losses": ("cross_entropy", "squared_distance"),
    "errors": ("DataError", "DivergedError", "InputError", "RecollectError", "TimeUp"),
    "experiments": ("Results", "compare", "run", "search"),
    "learner": ("Learner", "Metrics", "prometheus"),
    "live": ("LiveStream",),
    "methods": (
        "DER", "ER", "SGD", "DERpp", "Field", "Joint", "Method", "Needs", "Query", "Replay",
        "Setup", "Spec", "Step", "Task", "hyper",
    ),
    "nets": ("MLP", "ResNet18"),
    "streams": ("from_arrays", "from_dataset", "from_folder"),
    "train": ("Callback", "Fleet", "encode"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_PACKAGES = {
    "adapters", "core", "errors", "experiments", "feeds", "learner", "live", "memory", "methods",
    "nets", "streams", "testing", "train",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        found = getattr(import_module(f"recollect.{_HOME_OF[name]}"), name)
    elif name in _PACKAGES:
        found = import_module(f"recollect.{name}")
    else:
        raise AttributeError(f"module 'recollect' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
