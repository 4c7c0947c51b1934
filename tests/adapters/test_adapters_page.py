"""The page on adapters, and what a person meets who has not installed what it needs."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import recollect.adapters
from recollect.errors import MissingExtraError

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
PRINTED = [
    r"None: (\d+\.\d) % right\nrange\(0, 10\): (\d+\.\d) % right",
    r"five folds: (\d\.\d+)\nafter more rows: (\d\.\d+)",
    r"Accuracy: (\d+\.\d+)%",
    r"\[(True|False), (True|False), (True|False)\]",
    r"200 .* 2000 examples, accuracy (\d+\.\d+) %",
]
LEAST = [85.0, 0.9, 75.0, None, 70.0]


def test_every_block_is_looked_at() -> None:
    assert len(BLOCKS) == len(PRINTED)


@pytest.mark.parametrize("number", range(len(PRINTED)))
def test_the_pages_python_runs_and_prints_what_it_should(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "block.py"
    script.write_text(BLOCKS[number], "utf-8")
    runpy.run_path(str(script), run_name="__main__")
    printed = capsys.readouterr().out
    found = re.search(PRINTED[number], printed)
    assert found, printed
    least = LEAST[number]
    if least is not None:
        assert min(map(float, found.groups())) > least, printed


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
