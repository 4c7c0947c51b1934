"""The paper's figures: each has a function that computes its data and one that draws it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, final

from recollect.errors import unknown_name
from recollect.experiments.figures import curves, examples, fisher, over_time, scores, wall_clock
from recollect.experiments.figures.drawing import Drawing, check_matplotlib, compose, save
from recollect.experiments.figures.runs import Material

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "Material", "Recipe", "check_matplotlib", "recipe", "save"]


@final
@dataclass(frozen=True)
class Recipe:
    """Functions that compute the data of a figure (a dataclass) and draw it."""

    title: str
    data: Callable[[Material], Any]
    drawing: Callable[[Any], Drawing]

    def draw(self, data: Any) -> Figure:
        """Draw the figure, with all plots on one page."""
        return compose(self.drawing(data))


def recipe(name: str) -> Recipe:
    """Return the recipe of a figure by name.

    >>> recipe("memory").title
    'accuracy against bytes stored'
    """
    if name not in FIGURES:
        raise unknown_name("figure", name, FIGURES)
    return FIGURES[name]


def _arrivals(name: str, material: Material) -> examples.ArrivalsData:
    return examples.arrivals(material.stream(name)[1])


FIGURES = {
    "memory": Recipe("accuracy against bytes stored", scores.memory, scores.draw_memory),
    "wall-clock": Recipe("training time of each method", wall_clock.data, wall_clock.drawing),
    "fisher": Recipe(
        "energy of the Fisher matrix along training (trains)",
        lambda found: fisher.data(*found.stream("seq-mnist"), found.seeds, report=found.report),
        fisher.drawing,
    ),
    "tiny-memories": Recipe(
        "DER++ against ER's memories", scores.tiny_memories, scores.draw_tiny_memories
    ),
    "mnist-360": Recipe(
        "batches of MNIST-360",
        lambda found: examples.batches(found.stream("mnist-360")[1]),
        examples.draw_batches,
    ),
    "over-time": Recipe("accuracy on a task over time", over_time.data, over_time.drawing),
    "curves": Recipe(
        "loss and accuracy during training, of runs with --curves", curves.data, curves.drawing
    ),
    "transfer": Recipe(
        "transfer and forgetting of each method", scores.transfer, scores.draw_transfer
    ),
    **{
        name: Recipe(
            f"the first examples of each task of {name}",
            partial(_arrivals, name), examples.draw_arrivals,
        )
        for name in (
            "seq-mnist", "perm-mnist", "rot-mnist", "seq-cifar10", "seq-tiny-imagenet",
            "seq-cifar100", "seq-fashion-mnist", "online-cifar10", "online-cifar100",
        )
    },
}  # fmt: skip
