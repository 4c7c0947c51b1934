"""Scikit-learn and River estimators around `recollect.Learner`, imported on first use.

`SklearnClassifier` and `SklearnRegressor` need the extra `recollect[sklearn]`, `RiverClassifier`
and `RiverRegressor` need `recollect[river]`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recollect.adapters.river import RiverClassifier
    from recollect.adapters.river_regressor import RiverRegressor
    from recollect.adapters.scikit import SklearnClassifier
    from recollect.adapters.scikit_regressor import SklearnRegressor

__all__ = ["RiverClassifier", "RiverRegressor", "SklearnClassifier", "SklearnRegressor"]

HOMES = {
    "RiverClassifier": "recollect.adapters.river",
    "RiverRegressor": "recollect.adapters.river_regressor",
    "SklearnClassifier": "recollect.adapters.scikit",
    "SklearnRegressor": "recollect.adapters.scikit_regressor",
}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *HOMES]
