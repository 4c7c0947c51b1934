"""Figures of the report, drawn from runs or from data that `recollect figures` wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from recollect.errors import DataError, InputError, MissingExtraError
from recollect.experiments.checks import Check, number, text, whole
from recollect.experiments.figures import FIGURES, Material, check_matplotlib, over_time
from recollect.experiments.figures.drawing import pictures
from recollect.experiments.figures.examples import ArrivalsData, BatchesData
from recollect.experiments.figures.fisher import FisherData
from recollect.experiments.figures.wall_clock import WallClockData
from recollect.experiments.report.page import packed
from recollect.train import Result

# Figures whose data are not in runs, besides those of a benchmark's examples.
APART = {"wall-clock": WallClockData, "fisher": FisherData, "mnist-360": BatchesData}
PLAIN: dict[Any, Check] = {
    int: whole(0),
    float: number,
    str: text,
    type(None): lambda value: value is None,
}
# Figures in which each point is the mean of one configuration.
OF_CONFIGURATIONS = ("memory", "tiny-memories", "over-time", "curves", "transfer")


def figures_of(results: Sequence[Result], apart: Mapping[str, Any]) -> dict[str, Any]:
    """Draw the figures of these runs as SVG (packed JSON), or state what is missing.

    `apart` has the data of figures made separately, as `drawn_in` reads them.
    """
    try:
        check_matplotlib()
    except MissingExtraError as error:
        return {"missing": f"{error}, and then recollect report again.", "drawn": ""}
    material = Material(results=results)
    names = ("memory", "time", *apart, "tiny-memories", "over-time", "curves", "transfer")
    drawn = [found for name in names if (found := _figure(name, material, apart))]
    return {"missing": "", "drawn": packed(drawn) if drawn else ""}


def drawn_in(folder: Path) -> dict[str, Any]:
    """Read the data of figures that cannot be made from runs from a folder, by name."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {str(folder)!r}: correct --figures")
    found = {
        name: _read(folder / f"{name}.json", APART.get(name, ArrivalsData))
        for name in FIGURES
        if name not in OF_CONFIGURATIONS and (folder / f"{name}.json").exists()
    }
    if not found:
        raise InputError(
            f"{str(folder)!r} has no figure data: run recollect figures {' '.join(APART)} "
            f"--format json --out {folder}"
        )
    return found


def _figure(name: str, material: Material, apart: Mapping[str, Any]) -> dict[str, Any] | None:
    """Draw a figure for the page; None if there are no runs for it."""
    recipe = FIGURES["wall-clock" if name == "time" else name]
    make = _over_time if name == "over-time" else recipe.data
    try:
        drawing = recipe.drawing(apart[name] if name in apart else make(material))
    except InputError:
        return None
    return {
        "name": name, "title": drawing.title, "note": drawing.note, "plots": pictures(drawing),
        "configurations": name in OF_CONFIGURATIONS,
    }  # fmt: skip


def _over_time(material: Material) -> over_time.OverTimeData:
    """Data of the figure for all methods, with the default buffer or the smallest available."""
    sizes = {run.buffer for run in material.results if run.buffer is not None}
    usual = over_time.BUFFER
    return over_time.data(material, None, usual if usual in sizes else min(sizes, default=usual))


def _read(path: Path, kind: type[Any]) -> Any:
    """Read figure data as a dataclass of this type; errors name the damaged field."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise DataError(f"{path} cannot be read as JSON") from None
    try:
        return _dataclass(kind, data)
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
