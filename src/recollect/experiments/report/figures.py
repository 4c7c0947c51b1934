"""The report's figures: drawn from the runs, or from data that `recollect figures` wrote."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from recollect.errors import InputError, MissingExtraError
from recollect.experiments.figures import (
    FIGURES,
    check_matplotlib,
    memory,
    over_time,
    tiny_memories,
    transfer,
    wall_clock,
)
from recollect.experiments.figures.arrivals import ArrivalsData
from recollect.experiments.figures.drawing import Drawing, compose, for_page, picture
from recollect.experiments.figures.files import read
from recollect.train import Result

__all__ = ["drawn_in", "figures_of"]

# Runs do not have the data of these; nor of what arrives on a benchmark.
APART = {
    "wall-clock": "What a step of each method costs",
    "fisher": "The energy of the Fisher matrix along training",
    "mnist-360": "What arrives on MNIST-360",
}
BENCH = {"wall-clock": " --bench bench.txt"}


def figures_of(results: Sequence[Result], apart: Mapping[str, Any]) -> dict[str, Any]:
    """All figures of the page with their plots as SVG (packed JSON), or why there are none.

    `apart` has the data of figures that were made apart, as `drawn_in` reads them.
    """
    try:
        check_matplotlib()
    except MissingExtraError as error:
        return {"missing": f"{error}, and then recollect report again.", "drawn": ""}
    made: dict[str, Callable[[], Drawing]] = {
        "memory": lambda: memory.drawing(memory.data(results)),
        "time": lambda: wall_clock.drawing(wall_clock.data(results)),
        **{name: partial(FIGURES[name].drawing, data) for name, data in apart.items()},
        "tiny-memories": lambda: tiny_memories.drawing(tiny_memories.data(results)),
        "over-time": lambda: over_time.drawing(_over_time(results)),
        "transfer": lambda: transfer.drawing(transfer.data(results)),
    }
    drawn = [_figure(name, make) for name, make in made.items()]
    drawn += [_command(name) for name in APART if name not in apart]
    # Many plots say the same things: packed, they are a tenth of the size.
    packed = zlib.compress(json.dumps(drawn, separators=(",", ":")).encode(), 9)
    return {"missing": "", "drawn": base64.b64encode(packed).decode()}


def drawn_in(folder: Path) -> dict[str, Any]:
    """The data of the figures in a folder that cannot be made from runs, each by its name."""
    if not folder.is_dir():
        raise InputError(f"there is no folder {str(folder)!r}: correct --figures")
    found = {
        name: read(folder / f"{name}.json", figure.kind)
        for name, figure in FIGURES.items()
        if (name in APART or figure.kind is ArrivalsData) and (folder / f"{name}.json").exists()
    }
    if not found:
        raise InputError(
            f"{str(folder)!r} has no data of figures: run recollect figures {' '.join(APART)} "
            f"--format json --out {folder}"
        )
    return found


def _over_time(results: Sequence[Result]) -> over_time.OverTimeData:
    """Of all methods, with the usual buffer or else with the smallest that there is."""
    sizes = sorted({run.buffer for run in results if run.buffer is not None})
    usual = over_time.BUFFER
    return over_time.data(results, None, usual if usual in sizes or not sizes else sizes[0])


def _figure(name: str, make: Callable[[], Drawing]) -> dict[str, Any]:
    try:
        drawing = make()
    except InputError as error:
        title = FIGURES["wall-clock" if name == "time" else name].title
        return {"name": name, "title": title[0].upper() + title[1:], "note": f"Not here: {error}."}
    head = {"name": name, "title": drawing.title, "note": drawing.note}
    if drawing.images:
        whole = compose(replace(drawing, title="", note=""))
        return {**head, "plots": [{"svg": for_page(whole), "wide": True,
                                   "benchmark": drawing.plots[0].benchmark}]}  # fmt: skip
    return {
        **head,
        "plots": [
            {
                "title": plot.title,
                "benchmark": plot.benchmark,
                "buffer": plot.buffer,
                "view": plot.view,
                **picture(plot),
            }
            for plot in drawing.plots
        ],
    }


def _command(name: str) -> dict[str, Any]:
    first = ["make bench-methods > bench.txt"] if name in BENCH else []
    return {
        "name": name,
        "title": APART[name],
        "note": "Not in this report. It is made by",
        "commands": [
            *first,
            f"recollect figures {name}{BENCH.get(name, '')} --format json",
            "recollect report --figures figures",
        ],
    }
