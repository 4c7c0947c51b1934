"""Results in files that `--json` wrote: every field is checked before any run is taken in."""

from __future__ import annotations

import json
import math
from dataclasses import fields
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
from recollect.train import Result

__all__ = ["read_json"]


def read_json(path: Path | str) -> list[tuple[Result, Made]]:
    """The runs in a file that `--json` wrote, here or elsewhere; all of them, or an error."""
    try:
        data = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise DataError(f"{path} holds no results as --json writes them: it is no JSON") from None
    if not isinstance(data, list):
        raise DataError(f"{path} holds no results as --json writes them: it is no list of runs")
    return [_read(each, f"{path}, run {n}") for n, each in enumerate(data, start=1)]


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
