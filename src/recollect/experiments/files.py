"""Read and write result files; every field is validated before any run is accepted.

A `.json` file is a list of runs, as `--json` writes it. A `.jsonl` file has one run per line with
rounded numbers, compact enough for a repository.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from recollect.errors import DataError
from recollect.experiments import checks
from recollect.experiments.checks import Check, between, object_of, or_null, whole
from recollect.files import write_json, write_text
from recollect.train import Result
from recollect.train.measures import MEASURES
from recollect.train.provenance import MADE
from recollect.train.result import OPTIONAL

LINES = ".jsonl"
ROUNDED = (
    "accuracy", "fwt", "bwt", "forgetting", "matrix", "untrained", "train_seconds", "curves",
)  # fmt: skip
DIGITS = 4
SHOWN = 40  # characters of a value in an error message
SIGNS = {"benchmark", "method", "accuracy"}  # an object without any of these is not a run


def read_json(path: Path | str, notice: Callable[[str], None] = warnings.warn) -> list[Result]:
    """Read all runs of a file, or of every file in a folder.

    A file is a list of runs, as `--json` writes it, or has one run per line (`.jsonl`). Any damaged
    run is an error. Files in a folder that do not contain runs are skipped, and `notice` receives
    a line for each.
    """
    folder = Path(path)
    if not folder.is_dir():
        return _runs_in(folder)
    files = sorted(each for each in folder.iterdir() if each.suffix in (LINES, ".json"))
    if not files:
        raise DataError(f"{folder} has no results: it has no *{LINES} or *.json file")
    found: list[list[Result]] = []
    for file in files:
        try:
            found.append(_runs_in(file))
        except NotResultsError as error:
            notice(f"skipped: {error}")
    if not found:
        raise DataError(f"{folder} has no results: none of its files contains runs")
    return [run for runs in found for run in runs]


def write_runs(path: Path | str, runs: Iterable[Result]) -> None:
    """Write runs with their provenance to a JSON file, or one run per line to a `.jsonl` file.

    In a `.jsonl` file, scores, losses and seconds are rounded to four decimals, or for small values
    to four significant digits.
    """
    found = [run.as_json() for run in runs]
    if Path(path).suffix != LINES:
        write_json(path, found)
        return
    for data in found:
        data |= {name: _rounded(data[name]) for name in ROUNDED if name in data}
    texts = (json.dumps(data, separators=(",", ":"), allow_nan=False) for data in found)
    write_text(path, "".join(f"{text}\n" for text in texts))


class NotResultsError(DataError):
    """Raised for a file that does not contain runs."""


def _runs_in(path: Path) -> list[Result]:
    try:
        text = path.read_text("utf-8-sig")  # other programs may write a byte order mark
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise _not_results(path, "it is not JSON") from None
    runs: list[Result] = []
    try:
        for data, where in _items(text, path):
            runs.append(_read(data, where))
    except NotResultsError as error:
        if runs:  # a results file, but damaged
            raise DataError(str(error)) from None
        raise
    return runs


def _items(text: str, path: Path) -> Iterator[tuple[Any, str]]:
    """Yield every item of a file that should be a run, with its location."""
    if path.suffix == LINES:
        for at, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield _parsed(line, f"{path}, line {at}"), f"{path}, line {at}"
        return
    runs = _parsed(text, str(path))
    if not isinstance(runs, list):
        raise _not_results(path, "it is not a list of runs")
    yield from ((run, f"{path}, run {at}") for at, run in enumerate(runs, start=1))


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _not_results(where, "it is not JSON") from None


def _not_results(where: Path | str, why: str) -> NotResultsError:
    return NotResultsError(f"{where} is not a results file as --json writes it: {why}")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    if not isinstance(value, float) or not value:
        return value
    # Small values, such as errors in large units, keep as many significant digits.
    return round(value, max(DIGITS, DIGITS - 1 - math.floor(math.log10(abs(value)))))


def _read(data: Any, where: str) -> Result:
    other = f"{where}: not a run as --json writes it"
    if not isinstance(data, dict):
        raise NotResultsError(f"{other}: {_shown(data)} is not an object")
    if not SIGNS & data.keys():
        raise NotResultsError(f"{other}: {min(SIGNS)!r} is missing")
    data = {"made": None, **data}
    if missing := [name for name in FIELDS if name not in data]:
        raise DataError(f"{other}: {missing[0]!r} is missing")
    if unknown := [name for name in data if name not in FIELDS | ADDED]:
        raise DataError(f"{other}: {unknown[0]!r} is unknown")
    for name, (wanted, good) in (FIELDS | ADDED).items():
        if name in data and not good(data[name]):
            culprit = _culprit(data[name], good)
            raise DataError(f"{where}: {name!r} must be {wanted}, not {_shown(culprit)}")
    return Result.from_json(data)


def _shown(value: Any) -> str:
    letters = ascii(value)
    return letters if len(letters) <= SHOWN else f"{letters[:SHOWN]}..."


def _name(value: Any) -> bool:
    return checks.text(value) and value != ""


def _truth(value: Any) -> bool:
    return isinstance(value, bool)


def _made(value: Any) -> bool:
    return object_of(checks.text)(value) and {*MADE, *OPTIONAL}.issuperset(value)


def _table_of(good: Check) -> Check:
    """Return a check for a table: a list of rows of equal length."""
    lines = checks.list_of(checks.list_of(or_null(good)))
    return lambda value: lines(value) and len({len(line) for line in value}) == 1


def _per_setting(percentages: Check, values: Check) -> Check:
    """Return a check for an object by setting: percentages, or unbounded regression measures."""
    bounds = dict.fromkeys(MEASURES["regression"], values)
    return lambda value: (
        object_of(lambda each: True)(value)
        and all(bounds.get(name, percentages)(each) for name, each in value.items())
    )


def _culprit(value: Any, good: Check) -> Any:
    """Return the first invalid entry of an object, or the value itself."""
    if not isinstance(value, dict):
        return value
    entries = ({key: each} for key, each in value.items())
    return next((entry for entry in entries if not good(entry)), value)


def _curves(value: Any) -> bool:
    if not (isinstance(value, dict) and value.keys() == CURVES.keys()):
        return False
    if not all(good(value[name]) for name, good in CURVES.items()):
        return False
    steps, columns = value["steps"], [value["tasks"], value["loss"], *value["accuracy"].values()]
    rising = all(before < after for before, after in pairwise(steps))
    return rising and {len(column) for column in columns} == {len(steps)}


def _square(value: Any) -> bool:
    """Check for a square table of counts."""
    lines = checks.list_of(checks.list_of(whole(0)))
    return lines(value) and {len(line) for line in value} == {len(value)}


_percent = between(0, 100)
_change = or_null(between(-100, 100))
_changes = _per_setting(_change, or_null(checks.number))
_change_words = "an object of numbers from -100 to 100 (any for regression measures), or null"

FIELDS: dict[str, tuple[str, Check]] = {
    "benchmark": ("a name", _name),
    "method": ("a name", _name),
    "buffer": ("an integer of at least 1, or null", or_null(whole(1))),
    "seed": ("an integer of at least 0", whole(0)),
    "hyperparameters": ("an object of numbers", object_of(checks.number)),
    "accuracy": (
        "an object of percentages or regression measures",
        _per_setting(_percent, or_null(checks.number)),
    ),
    "fwt": (_change_words, _changes),
    "bwt": (_change_words, _changes),
    "forgetting": (_change_words, _changes),
    "epochs": ("an integer of at least 1", whole(1)),
    "validation": ("true or false", _truth),
    "matrix": (
        "an object of tables of percentages (or regression measures) or null",
        _per_setting(_table_of(_percent), _table_of(checks.number)),
    ),
    "untrained": (
        "an object of lists of percentages, or null",
        or_null(_per_setting(checks.list_of(_percent), checks.list_of(checks.number))),
    ),
    "train_seconds": ("a number of at least 0", between(0, math.inf)),
    "steps": ("an integer of at least 0", whole(0)),
    "memory_bytes": ("an integer of at least 0", whole(0)),
    "diverged": ("true or false", _truth),
    "device": ("a string", checks.text),
    "execution": ("a string", checks.text),
    "made": ("an object of strings with known names, or null", or_null(_made)),
}

CURVES: dict[str, Check] = {
    "every": whole(1),
    "examples": whole(1),
    "steps": checks.list_of(whole(1)),
    "tasks": checks.list_of(whole(0)),
    "loss": checks.list_of(or_null(checks.number)),
    "accuracy": _per_setting(
        checks.list_of(checks.list_of(_percent)),
        checks.list_of(checks.list_of(or_null(checks.number))),
    ),
}

# Fields that are in a file only if they were requested.
ADDED: dict[str, tuple[str, Check]] = {
    "curves": ("an object of lists as long as its steps", _curves),
    "confusion": ("an object of square tables of counts", object_of(_square)),
    "network_file": ("a path", _name),
}  # fmt: skip
