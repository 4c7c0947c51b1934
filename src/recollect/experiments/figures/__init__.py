"""The paper's figures: for each, a function that makes plain data and one that draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from recollect.errors import InputError, unknown_name
from recollect.experiments.figures import (
    fisher,
    memory,
    mnist360,
    over_time,
    streams,
    tiny_memories,
    wall_clock,
)
from recollect.experiments.figures.look import check_matplotlib, save
from recollect.experiments.reproduce import stream_or_stand_in
from recollect.streams import benchmark, twin
from recollect.streams.data import look
from recollect.train import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "Material", "Recipe", "check_matplotlib", "recipe", "save"]


@final
@dataclass(frozen=True)
class Material:
    """What figures are made from: results, or what it takes to train for them."""

    results: Sequence[Result] = ()
    bench: Path | None = None
    folder: Path | None = None
    seeds: Sequence[int] = range(5)
    report: Callable[[str], None] = lambda text: None


@final
@dataclass(frozen=True)
class Recipe:
    """How a figure is made: its data, a plain dataclass, and their drawing."""

    title: str
    data: Callable[[Material], Any]
    draw: Callable[[Any], Figure]


def recipe(name: str) -> Recipe:
    """The figure of that name.

    >>> recipe("memory").title
    'accuracy against bytes held'
    """
    if name not in FIGURES:
        raise unknown_name("figure", name, FIGURES)
    return FIGURES[name]


def _fisher(material: Material) -> fisher.FisherData:
    known, stream = stream_or_stand_in(benchmark("seq-mnist"), material.folder, material.report)
    return fisher.data(known, stream, material.seeds, report=material.report)


def _mnist360(material: Material) -> mnist360.BatchesData:
    _, stream = stream_or_stand_in(benchmark("mnist-360"), material.folder, material.report)
    return mnist360.data(stream)


def _arrivals(name: str, material: Material) -> streams.ArrivalsData:
    known = benchmark(name)
    # Nothing stands in for photographs, and a picture is no reason to fetch hundreds of megabytes.
    if twin(known) is None and look(known.dataset, material.folder).where == "not here":
        raise InputError(
            f"the data of {name} are not here: run recollect data fetch {known.dataset}"
        )
    _, stream = stream_or_stand_in(known, material.folder, material.report)
    return streams.data(stream)


def _wall_clock(material: Material) -> wall_clock.WallClockData:
    if material.bench is not None:
        return wall_clock.from_bench(material.bench)
    return wall_clock.data(material.results)


FIGURES = {
    "memory": Recipe("accuracy against bytes held", lambda m: memory.data(m.results), memory.draw),
    "wall-clock": Recipe("training time of each method", _wall_clock, wall_clock.draw),
    "fisher": Recipe("energy of the Fisher matrix along training (trains)", _fisher, fisher.draw),
    "tiny-memories": Recipe(
        "DER++ against ER's memories", lambda m: tiny_memories.data(m.results), tiny_memories.draw
    ),
    "mnist-360": Recipe("batches of MNIST-360", _mnist360, mnist360.draw),
    "over-time": Recipe(
        "accuracy on a task over time", lambda m: over_time.data(m.results), over_time.draw
    ),
    **{
        name: Recipe(
            f"the first examples of each task of {name}", partial(_arrivals, name), streams.draw
        )
        for name in ("seq-mnist", "perm-mnist", "rot-mnist", "seq-cifar10", "seq-tiny-imagenet")
    },
}
