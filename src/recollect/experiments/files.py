"""Results in files that `--json` wrote: every field is checked before any run is taken in."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from recollect.errors import DataError
from recollect.experiments.made import Made
from recollect.train import Result

__all__ = ["read_json"]

WIDEST = 2**63  # what a store's columns hold
SHOWN = 40

Check = Callable[[Any], bool]


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
    return [_read(each, f"{path}, run {number}") for number, each in enumerate(data, start=1)]


def _read(data: Any, where: str) -> tuple[Result, Made]:
    if not isinstance(data, dict):
        raise DataError(f"{where}: no results as --json writes them: {_shown(data)} is no object")
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
            raise DataError(f"{where}: {name!r} must be {wanted}, not {_shown(culprit)}")
    return Result(**data), _made(origin, data["device"], where)


def _made(origin: Any, device: str, where: str) -> Made:
    unknown = {"version": "", "code": "imported", "machine": device, "command": "", "created": ""}
    if origin is None:
        return Made(**unknown)
    if not (_texts(origin) and origin.keys() <= unknown.keys()):
        raise DataError(
            f"{where}: 'made' must be an object of texts ({', '.join(unknown)}), "
            f"not {_shown(origin)}"
        )
    return Made(**{**unknown, **origin})


def _text(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a character, which JSON can spell and no file can hold
        return False
    return True


def _name(value: Any) -> bool:
    return _text(value) and value != ""


def _truth(value: Any) -> bool:
    return isinstance(value, bool)


def _whole(least: int) -> Check:
    return lambda value: (
        isinstance(value, int) and not isinstance(value, bool) and least <= value < WIDEST
    )


def _number(value: Any) -> bool:
    # Whole numbers of any length are JSON; those that no float holds are of no use here.
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < WIDEST
    return isinstance(value, float) and math.isfinite(value)


def _between(low: float, high: float) -> Check:
    return lambda value: _number(value) and low <= value <= high


def _or_null(good: Check) -> Check:
    return lambda value: value is None or good(value)


def _object(good: Check) -> Check:
    return lambda value: (
        isinstance(value, dict) and all(_text(key) and good(each) for key, each in value.items())
    )


def _list(good: Check) -> Check:
    return lambda value: isinstance(value, list) and len(value) > 0 and all(map(good, value))


def _table(value: Any) -> bool:
    """Lines of one length, as the accuracy after every task is kept."""
    lines = _list(_list(_or_null(_percent)))
    return lines(value) and len({len(line) for line in value}) == 1


def _culprit(value: Any, good: Check) -> Any:
    """Of an object, the first entry that is not as it should be."""
    if not isinstance(value, dict):
        return value
    entries = ({key: each} for key, each in value.items())
    return next((entry for entry in entries if not good(entry)), value)


def _shown(value: Any) -> str:
    """A value in few letters, for an error."""
    text = ascii(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


_percent = _between(0, 100)
_change = _or_null(_between(-100, 100))
_texts = _object(_text)
_change_words = "an object of numbers from -100 to 100, or null"

FIELDS: dict[str, tuple[str, Check]] = {
    "benchmark": ("a name", _name),
    "method": ("a name", _name),
    "buffer": ("a whole number from 1 on, or null", _or_null(_whole(1))),
    "seed": ("a whole number", _whole(-WIDEST)),
    "hyperparameters": ("an object of numbers", _object(_number)),
    "accuracy": ("an object of percentages", _object(_percent)),
    "fwt": (_change_words, _object(_change)),
    "bwt": (_change_words, _object(_change)),
    "forgetting": (_change_words, _object(_change)),
    "epochs": ("a whole number from 1 on", _whole(1)),
    "validation": ("true or false", _truth),
    "matrix": ("an object of tables of percentages or null", _object(_table)),
    "untrained": (
        "an object of lists of percentages, or null",
        _or_null(_object(_list(_percent))),
    ),
    "train_seconds": ("a number from 0 on", _between(0, math.inf)),
    "steps": ("a whole number from 0 on", _whole(0)),
    "memory_bytes": ("a whole number from 0 on", _whole(0)),
    "diverged": ("true or false", _truth),
    "device": ("a text", _text),
    "execution": ("a text", _text),
}
