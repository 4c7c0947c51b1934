"""What a person meets who has not installed the library that an adapter is for."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import recollect.adapters
from recollect.errors import MissingExtraError


def python(script: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_neither_library_is_imported_before_it_is_asked_for() -> None:
    script = (
        "import sys, recollect.adapters; dir(recollect.adapters); "
        "print([m for m in ('sklearn', 'river', 'pandas') if m in sys.modules])"
    )
    assert python(script) == "[]"


@pytest.mark.parametrize(
    ("library", "name", "extra"),
    [("sklearn", "SklearnClassifier", "sklearn"), ("river", "RiverClassifier", "river")],
)
def test_a_library_that_is_missing_is_said_with_its_extra(
    library: str, name: str, extra: str
) -> None:
    """None in sys.modules is how Python marks what cannot be imported."""
    script = (
        f"import sys; sys.modules[{library!r}] = None\n"
        f"try:\n    from recollect.adapters import {name}\n"
        f"except ImportError as error:\n    print(type(error).__name__, error)"
    )
    assert python(script) == (
        f"MissingExtraError {name} needs {library}, which is not installed: "
        f'run pip install "recollect[{extra}]"'
    )


def test_the_error_is_one_of_ours_and_an_import_error() -> None:
    assert issubclass(MissingExtraError, ImportError)
    assert issubclass(MissingExtraError, recollect.RecollectError)


def test_the_names_are_listed_and_others_unknown() -> None:
    assert set(recollect.adapters.__all__) <= set(dir(recollect.adapters))
    with pytest.raises(AttributeError, match="no attribute 'KerasClassifier'"):
        _ = recollect.adapters.KerasClassifier
