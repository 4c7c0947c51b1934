"""The learner in the shapes of other libraries; each is imported when it is asked for.

`SklearnClassifier` needs the extra `recollect[sklearn]`, `RiverClassifier` needs
`recollect[river]`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect.adapters.river import RiverClassifier
    from recollect.adapters.scikit import SklearnClassifier

__all__ = ["RiverClassifier", "SklearnClassifier"]

HOMES = {
    "RiverClassifier": "recollect.adapters.river",
    "SklearnClassifier": "recollect.adapters.scikit",
}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *HOMES]
