"""The paper's figures: for each, a function that makes plain data and one that draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from recollect.errors import InputError, unknown_name
from recollect.experiments.figures import (
    arrivals,
    fisher,
    memory,
    mnist360,
    over_time,
    tiny_memories,
    transfer,
    wall_clock,
)
from recollect.experiments.figures.drawing import Drawing, check_matplotlib, compose, save
from recollect.experiments.figures.runs import Panels
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
    """How a figure is made: its data, a dataclass of the type `kind`, and its drawing."""

    title: str
    kind: type[Any]
    data: Callable[[Material], Any]
    drawing: Callable[[Any], Drawing]

    def draw(self, data: Any) -> Figure:
        """The figure of these data, all plots on one page."""
        return compose(self.drawing(data))


def recipe(name: str) -> Recipe:
    """The figure of that name.

    >>> recipe("memory").title
    'accuracy against bytes stored'
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


def _arrivals(name: str, material: Material) -> arrivals.ArrivalsData:
    known = benchmark(name)
    # Nothing stands in for photographs, and a picture is no reason to fetch hundreds of megabytes.
    if twin(known) is None and look(known.dataset, material.folder).where == "not here":
        raise InputError(
            f"the data of {name} are not here: run recollect data fetch {known.dataset}"
        )
    _, stream = stream_or_stand_in(known, material.folder, material.report)
    return arrivals.data(stream)


def _wall_clock(material: Material) -> wall_clock.WallClockData:
    if material.bench is not None:
        return wall_clock.from_bench(material.bench)
    return wall_clock.data(material.results)


FIGURES = {
    "memory": Recipe(
        "accuracy against bytes stored",
        Panels, lambda m: memory.data(m.results), memory.drawing,
    ),
    "wall-clock": Recipe(
        "training time of each method",
        wall_clock.WallClockData, _wall_clock, wall_clock.drawing,
    ),
    "fisher": Recipe(
        "energy of the Fisher matrix along training (trains)",
        fisher.FisherData, _fisher, fisher.drawing,
    ),
    "tiny-memories": Recipe(
        "DER++ against ER's memories",
        Panels, lambda m: tiny_memories.data(m.results), tiny_memories.drawing,
    ),
    "mnist-360": Recipe(
        "batches of MNIST-360", mnist360.BatchesData, _mnist360, mnist360.drawing
    ),
    "over-time": Recipe(
        "accuracy on a task over time",
        over_time.OverTimeData, lambda m: over_time.data(m.results), over_time.drawing,
    ),
    "transfer": Recipe(
        "transfer and forgetting of each method",
        transfer.TransferData, lambda m: transfer.data(m.results), transfer.drawing,
    ),
    **{
        name: Recipe(
            f"the first examples of each task of {name}",
            arrivals.ArrivalsData, partial(_arrivals, name), arrivals.drawing,
        )
        for name in ("seq-mnist", "perm-mnist", "rot-mnist", "seq-cifar10", "seq-tiny-imagenet")
    },
}  # fmt: skip
