"""How figures look: one colour for a method in all of them, and the way into a file."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from recollect.extras import needs
from recollect.methods import title_of as known_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Look", "caption", "check_matplotlib", "look", "new_figure", "save", "tidy", "title_of"]

COLOURS_OF_A_PNG = 128

RULES: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#666666",
    "axes.grid": True,
    "axes.labelcolor": "#222222",
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "figure.facecolor": "white",
    "font.family": "sans-serif",
    "font.size": 9,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 5,
    "savefig.facecolor": "white",
    "svg.fonttype": "none",
    "svg.hashsalt": "recollect",
    "xtick.color": "#444444",
    "xtick.labelsize": 8,
    "ytick.color": "#444444",
    "ytick.labelsize": 8,
}


@final
@dataclass(frozen=True)
class Look:
    """The colour, marker and line of a method."""

    colour: str
    marker: str = "o"
    line: str = "-"


LOOKS = {
    "joint": Look("#222222", "_", ":"),
    "sgd": Look("#8a8a8a", "_", "--"),
    "oewc": Look("#6b5b4d", "s"),
    "ewc": Look("#a8978a", "s"),
    "si": Look("#8d99ae", "D"),
    "lwf": Look("#3d5a80", "^"),
    "pc": Look("#9a8c98", "v"),
    "pnn": Look("#22223b", "P"),
    "packnet": Look("#4a4e69", "X"),
    "hat": Look("#8c7aa9", "*"),
    "er": Look("#1f6fb4"),
    "mer": Look("#5fb0e5", "v"),
    "gem": Look("#1b7f4b", "s"),
    "agem": Look("#86c06c", "D"),
    "agem-r": Look("#86c06c", "D", "--"),
    "icarl": Look("#7b3fb0", "^"),
    "fdr": Look("#d770ad", "P"),
    "gss": Look("#8c5a3c", "X"),
    "hal": Look("#b59b00", "h"),
    "der": Look("#f28e2b", "s"),
    "derpp": Look("#c1121f"),
    "er-ring": Look("#17a2b8", "s"),
    "er-kmeans": Look("#0b525b", "^"),
    "er-mof": Look("#6a6fd1", "v"),
    "er-hybrid": Look("#9bb8d8", "D", "--"),
    "der-at-ends": Look("#f28e2b", "s", "--"),
    "derpp-at-ends": Look("#c1121f", "o", "--"),
}

TITLES = {"der-at-ends": "DER, logits at task ends", "derpp-at-ends": "DER++, logits at task ends"}


def look(method: str) -> Look:
    """How a method is drawn in every figure; those that nobody foresaw are black.

    >>> look("derpp").colour == look("derpp-at-ends").colour, look("mine").colour
    (True, '#000000')
    """
    return LOOKS.get(method, Look("#000000"))


def title_of(method: str) -> str:
    """What a method is called in a figure.

    >>> title_of("derpp"), title_of("mine")
    ('DER++', 'mine')
    """
    return TITLES.get(method) or known_title(method)


def check_matplotlib() -> None:
    """Refuse to draw without the library that draws."""
    with needs("matplotlib", extra="figures", what="drawing a figure"):
        import matplotlib  # noqa: F401


@contextmanager
def new_figure(
    rows: int, columns: int, width: float, height: float, **shared: Any
) -> Iterator[tuple[Figure, list[Axes]]]:
    """An empty figure and its axes, row after row; what is drawn within looks as all others do."""
    check_matplotlib()
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(RULES):
        figure = Figure(figsize=(width, height), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, **shared)
        yield figure, [axes for row in grid for axes in row]
        # Places are found once: found again for every file, they would differ a little.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def caption(figure: Figure, title: str, note: str) -> None:
    """What is seen, above; how it was made, below."""
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, fontweight="bold", color="#111111")
    figure.supxlabel(note, x=0.01, ha="left", fontsize=8, color="#555555")


def tidy(spare: Sequence[Axes]) -> None:
    """Leave axes empty that no panel needs."""
    for axes in spare:
        axes.set_axis_off()


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG or SVG, by the file's ending; the same figure gives the same file."""
    import matplotlib
    from PIL import Image

    with matplotlib.rc_context(RULES):
        if path.suffix == ".svg":
            figure.savefig(path, metadata={"Date": None})
            return
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=160)
    # Lines and letters on white need few colours, and the file is a third of the size.
    few = Image.open(drawn).convert("RGB").quantize(COLOURS_OF_A_PNG, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
