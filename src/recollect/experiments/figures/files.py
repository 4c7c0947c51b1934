"""Read figure data that `recollect figures --format json` wrote."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from recollect.errors import DataError
from recollect.experiments.checks import Check, number, text, whole

__all__ = ["read"]

Kind = TypeVar("Kind")

PLAIN: dict[Any, Check] = {
    int: whole(0),
    float: number,
    str: text,
    type(None): lambda value: value is None,
}


def read(path: Path, kind: type[Kind]) -> Kind:
    """Read figure data as a dataclass of this type; errors name the damaged field."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise DataError(f"{path} cannot be read as JSON") from None
    try:
        return _dataclass(kind, data)  # type: ignore[no-any-return]
    except ValueError as error:
        raise DataError(f"{path} is not a file of recollect figures: {error}") from None


def _typed(kind: Any, value: Any) -> Any:
    if get_origin(kind) is tuple:
        if not isinstance(value, list) or not value:
            raise ValueError("expected a non-empty list")
        return tuple(_typed(get_args(kind)[0], each) for each in value)
    if isinstance(kind, UnionType):
        *others, last = get_args(kind)
        for each in others:
            with suppress(ValueError):
                return _typed(each, value)
        return _typed(last, value)
    if kind not in PLAIN:
        return _dataclass(kind, value)
    if not PLAIN[kind](value):
        raise ValueError(f"{ascii(value)[:40]} is not a valid value")
    return value


def _dataclass(kind: Any, value: Any) -> Any:
    if not isinstance(value, dict):
        raise ValueError("expected an object")
    types, made = get_type_hints(kind), {}
    for name in (field.name for field in fields(kind)):
        if name in value:
            try:
                made[name] = _typed(types[name], value[name])
            except ValueError as error:
                raise ValueError(f"{name!r}: {error}") from None
        elif name not in vars(kind):  # it has no default
            raise ValueError(f"{name!r} is missing")
    return kind(**made)
