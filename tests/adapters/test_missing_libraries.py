"""What a person meets who has not installed the library that an adapter is for."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import recollect.adapters
from recollect.errors import MissingExtraError

# None in sys.modules is how Python marks what cannot be imported.
SCRIPT = """
import json, sys, recollect.adapters
dir(recollect.adapters)
said = {"imported": [m for m in ("sklearn", "river", "pandas") if m in sys.modules]}
sys.modules.update(sklearn=None, river=None)
for name in recollect.adapters.__all__:
    try:
        getattr(recollect.adapters, name)
    except ImportError as error:
        said[name] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""


def test_neither_library_is_imported_before_it_is_asked_for_and_a_missing_one_is_said(
    python: Callable[..., str],
) -> None:
    pairs = {
        f"{shape}{kind}": library
        for shape, library in (("Sklearn", "sklearn"), ("River", "river"))
        for kind in ("Classifier", "Regressor")
    }
    assert json.loads(python("-c", SCRIPT)) == {
        "imported": [],
        **{
            name: f"MissingExtraError: {name} needs {library}, which is not installed: "
            f'run pip install "recollect[{library}]"'
            for name, library in pairs.items()
        },
    }


def test_the_error_is_one_of_ours_and_an_import_error() -> None:
    assert issubclass(MissingExtraError, ImportError)
    assert issubclass(MissingExtraError, recollect.RecollectError)


def test_the_names_are_listed_and_others_unknown() -> None:
    assert set(recollect.adapters.__all__) <= set(dir(recollect.adapters))
    with pytest.raises(AttributeError, match="no attribute 'KerasClassifier'"):
        _ = recollect.adapters.KerasClassifier
