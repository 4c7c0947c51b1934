"""Results in files: every field is checked before any run is taken in.

A file that `--json` wrote is a list of runs. JSON lines (`.jsonl`) have one run a line, rounded, as
they stand in a repository.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from recollect.errors import DataError
from recollect.experiments.checks import (
    Check,
    between,
    list_of,
    number,
    object_of,
    or_null,
    shown,
    text,
    truth,
    whole,
)
from recollect.experiments.made import Made
from recollect.files import write_text
from recollect.train import Result

__all__ = ["read_json", "write_lines"]

LINES = ".jsonl"
ROUNDED = ("accuracy", "fwt", "bwt", "forgetting", "matrix", "untrained", "train_seconds")
DIGITS = 4


def read_json(path: Path | str) -> list[tuple[Result, Made]]:
    """Read the runs of a file, or of every file in a folder; all of them, or an error.

    A file is a list, as `--json` writes it, or has one run a line (`.jsonl`).
    """
    place = Path(path)
    if place.is_dir():
        return [run for file in _files_in(place) for run in read_json(file)]
    try:
        text = place.read_text("utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise _no_results(str(path), "it is no JSON") from None
    if place.suffix == LINES:
        return [_read(_parsed(line, where), where) for line, where in _lines(text, path)]
    data = _parsed(text, str(path))
    if not isinstance(data, list):
        raise _no_results(str(path), "it is no list of runs")
    return [_read(each, f"{path}, run {n}") for n, each in enumerate(data, start=1)]


def write_lines(path: Path | str, rows: Iterable[tuple[Result, Made]]) -> None:
    """Write one run a line, with percentages and seconds rounded to four decimals."""
    lines = []
    for run, made in rows:
        data = run.as_json()
        data |= {name: _rounded(data[name]) for name in ROUNDED}
        data["made"] = asdict(made)
        lines.append(json.dumps(data, separators=(",", ":"), allow_nan=False) + "\n")
    write_text(path, "".join(lines))


def _files_in(folder: Path) -> list[Path]:
    found = [each for each in folder.iterdir() if each.suffix in (LINES, ".json")]
    if not found:
        raise DataError(f"{folder} holds no results: it has no file *{LINES} or *.json")
    return sorted(found)


def _lines(text: str, path: Path | str) -> Iterator[tuple[str, str]]:
    for at, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield line, f"{path}, line {at}"


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _no_results(where, "it is no JSON") from None


def _no_results(where: str, why: str) -> DataError:
    return DataError(f"{where} holds no results as --json writes them: {why}")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(value, DIGITS) if isinstance(value, float) else value


def _read(data: Any, where: str) -> tuple[Result, Made]:
    if not isinstance(data, dict):
        raise DataError(f"{where}: no results as --json writes them: {shown(data)} is no object")
    data = dict(data)
    origin = data.pop("made", None)
    names = [field.name for field in fields(Result)]
    if missing := [name for name in names if name not in data]:
        raise DataError(f"{where}: no results as --json writes them: {missing[0]!r} is missing")
    if unknown := [name for name in data if name not in names]:
        raise DataError(f"{where}: no results as --json writes them: {unknown[0]!r} is unknown")
    for name in names:
        wanted, good = FIELDS[name]
        if not good(data[name]):
            culprit = _culprit(data[name], good)
            raise DataError(f"{where}: {name!r} must be {wanted}, not {shown(culprit)}")
    return Result(**data), _made(origin, data["device"], where)


def _made(origin: Any, device: str, where: str) -> Made:
    unknown = {field.name: "" for field in fields(Made)} | {"code": "imported", "machine": device}
    if origin is None:
        return Made(**unknown)
    if not (_texts(origin) and origin.keys() <= unknown.keys()):
        raise DataError(
            f"{where}: 'made' must be an object of texts ({', '.join(unknown)}), "
            f"not {shown(origin)}"
        )
    return Made(**{**unknown, **origin})


def _name(value: Any) -> bool:
    return text(value) and value != ""


def _table(value: Any) -> bool:
    """Lines of one length, as the accuracy after every task is kept."""
    lines = list_of(list_of(or_null(_percent)))
    return lines(value) and len({len(line) for line in value}) == 1


def _culprit(value: Any, good: Check) -> Any:
    """Of an object, the first entry that is not as it should be."""
    if not isinstance(value, dict):
        return value
    entries = ({key: each} for key, each in value.items())
    return next((entry for entry in entries if not good(entry)), value)


_percent = between(0, 100)
_change = or_null(between(-100, 100))
_texts = object_of(text)
_change_words = "an object of numbers from -100 to 100, or null"

FIELDS: dict[str, tuple[str, Check]] = {
    "benchmark": ("a name", _name),
    "method": ("a name", _name),
    "buffer": ("a whole number from 1 on, or null", or_null(whole(1))),
    "seed": ("a whole number from 0 on", whole(0)),
    "hyperparameters": ("an object of numbers", object_of(number)),
    "accuracy": ("an object of percentages", object_of(_percent)),
    "fwt": (_change_words, object_of(_change)),
    "bwt": (_change_words, object_of(_change)),
    "forgetting": (_change_words, object_of(_change)),
    "epochs": ("a whole number from 1 on", whole(1)),
    "validation": ("true or false", truth),
    "matrix": ("an object of tables of percentages or null", object_of(_table)),
    "untrained": (
        "an object of lists of percentages, or null",
        or_null(object_of(list_of(_percent))),
    ),
    "train_seconds": ("a number from 0 on", between(0, math.inf)),
    "steps": ("a whole number from 0 on", whole(0)),
    "memory_bytes": ("a whole number from 0 on", whole(0)),
    "diverged": ("true or false", truth),
    "device": ("a text", text),
    "execution": ("a text", text),
}
