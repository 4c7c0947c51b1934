"""Figures of the report, drawn from runs or from data that `recollect figures` wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recollect.errors import InputError, MissingExtraError
from recollect.experiments.figures import FIGURES, Material, check_matplotlib, over_time
from recollect.experiments.figures.drawing import pictures
from recollect.experiments.figures.examples import ArrivalsData
from recollect.experiments.figures.files import read
from recollect.experiments.report.page import packed
from recollect.train import Result

__all__ = ["drawn_in", "figures_of"]

# Figures whose data are not in runs; so are those of a benchmark's examples.
APART = ("wall-clock", "fisher", "mnist-360")
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
    if not drawn:
        return {"missing": "", "drawn": ""}
    return {"missing": "", "drawn": packed(drawn)}


def drawn_in(folder: Path) -> dict[str, Any]:
    """Read the data of figures that cannot be made from runs from a folder, by name."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {str(folder)!r}: correct --figures")
    found = {
        name: read(folder / f"{name}.json", figure.kind)
        for name, figure in FIGURES.items()
        if (name in APART or figure.kind is ArrivalsData) and (folder / f"{name}.json").exists()
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
