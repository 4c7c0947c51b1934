"""Scikit-learn and River estimators around `recollect.Learner`, imported on first use.

`SklearnClassifier` and `SklearnRegressor` need the extra `recollect[sklearn]`, `RiverClassifier`
and `RiverRegressor` need `recollect[river]`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from recollect.extras import needs

if TYPE_CHECKING:
    from recollect.adapters.river import RiverClassifier, RiverRegressor
    from recollect.adapters.scikit import SklearnClassifier, SklearnRegressor

__all__ = ["RiverClassifier", "RiverRegressor", "SklearnClassifier", "SklearnRegressor"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    library, module = ("river", "river") if name.startswith("River") else ("sklearn", "scikit")
    with needs(library, extra=library, what=name):
        return getattr(import_module(f"recollect.adapters.{module}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
