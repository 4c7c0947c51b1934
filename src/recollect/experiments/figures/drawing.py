"""Draws plots with matplotlib: all of a figure in one file, or each as an SVG of its own."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from recollect.experiments.figures.chart import Chart
from recollect.experiments.figures.runs import in_order
from recollect.extras import needs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Drawing", "Plot", "check_matplotlib", "compose", "picture", "save"]

COLOURS_OF_A_PNG = 128
POINTS_PER_INCH = 72
LINES = {"--": " (dashed)", ":": " (dotted)"}
WIDTH, HEIGHT, ROW = 5.2, 3.5, 0.22  # of a plot on its own, in inches

STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#666666",
    "axes.grid": True,
    "axes.labelcolor": "#222222",
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "figure.dpi": POINTS_PER_INCH,
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
    "text.parse_math": False,  # names of methods and benchmarks are the user's
    "xtick.color": "#444444",
    "xtick.labelsize": 8,
    "ytick.color": "#444444",
    "ytick.labelsize": 8,
}


@final
@dataclass(frozen=True)
class Plot:
    """One pair of axes. The report filters plots by benchmark and buffer, and chooses a view.

    `rows` is how many rows of bars or dots it has, if it has such rows.
    """

    title: str
    draw: Callable[[Chart], None]
    benchmark: str = ""
    buffer: int | None = None
    view: str = ""
    rows: int = 0


@final
@dataclass(frozen=True)
class Drawing:
    """A figure: its plots row by row (or `down` the columns), each of a size in inches."""

    title: str
    note: str
    plots: Sequence[Plot]
    columns: int
    size: tuple[float, float]
    down: bool = False
    images: bool = False


def check_matplotlib() -> None:
    """Refuse to draw without the library that draws."""
    with needs("matplotlib", extra="figures", what="drawing a figure"):
        import matplotlib  # noqa: F401


def compose(drawing: Drawing) -> Figure:
    """All plots of a figure on one page, with its title above and a note below."""
    columns = min(drawing.columns, len(drawing.plots))
    rows = math.ceil(len(drawing.plots) / columns)
    width, height = drawing.size
    with _new_figure(columns * width + 0.6, rows * height + 1.0) as figure:
        grid = figure.subplots(rows, columns, squeeze=False)
        charts = [Chart(axes) for axes in (grid.T if drawing.down else grid).flat]
        for plot, chart in zip(drawing.plots, charts, strict=False):
            plot.draw(chart)
            chart.axes.set_title(plot.title)
        for chart in charts[len(drawing.plots) :]:
            chart.axes.set_axis_off()
        entries = {key: entry for chart in charts for key, entry in chart.legend.items()}
        if entries:
            found = [entries[key] for key in in_order(entries)]
            figure.legend(
                [each.artist for each in found], [each.title for each in found],
                loc="outside right upper",
            )  # fmt: skip
        figure.suptitle(
            drawing.title, x=0.01, ha="left", fontsize=12, fontweight="bold", color="#111111"
        )
        figure.supxlabel(drawing.note, x=0.01, ha="left", fontsize=8, color="#555555")
        # The layout is found once: found again for every file, it would differ a little.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the file's ending; the same data give the same file."""
    from PIL import Image

    with _style():
        if path.suffix != ".png":
            dates = {".svg": "Date", ".pdf": "CreationDate"}
            figure.savefig(path, metadata={dates[path.suffix]: None})
            return
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=160)
    # Lines and letters on white need few colours, and the file is a third of the size.
    few = Image.open(drawn).convert("RGB").quantize(COLOURS_OF_A_PNG, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def picture(plot: Plot) -> dict[str, Any]:
    """One plot for a page: an SVG without its title, what a reader can point at, and a legend.

    A mark is `[key, x, y, buffer, line of text, ...]` in units of the SVG; an entry of the legend
    is `[key, title, colour]`. The elements of a method have its name as `data-key`.
    """
    size = (WIDTH, 0.6 + ROW * plot.rows if plot.rows else HEIGHT)
    with _new_figure(*size) as figure:
        chart = Chart(figure.subplots())
        plot.draw(chart)
    svg = for_page(figure)
    height = size[1] * POINTS_PER_INCH
    marks: list[list[Any]] = []
    for mark in chart.marks:
        x, y = mark.transform.transform((mark.x, mark.y))
        marks.append([mark.key, round(x, 1), round(height - y, 1), mark.buffer, *mark.lines])
    legend = [
        [key, each.title + LINES.get(str(line.get_linestyle()), ""), str(line.get_color())]
        for key, each in chart.legend.items()
        for line in [each.artist]
    ]
    return {"svg": svg, "marks": marks, "legend": legend}


def for_page(figure: Figure) -> str:
    """A figure as a small SVG that can stand in a page beside others.

    Styles become attributes, which the page's policy allows; names that nothing refers to go, as
    they would occur twice.
    """
    file = io.StringIO()
    with _style():
        figure.savefig(file, format="svg", metadata={"Date": None}, transparent=True)
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.S)
    svg = re.sub(r' id="key:([^"]*)"', r' data-key="\1"', svg)
    svg = re.sub(r' id="(?![mp][0-9a-f]{10}")[^"]*"| xmlns:xlink="[^"]*"', "", svg)
    svg = re.sub(r' (?:width|height)="[\d.]+pt"| transform="rotate\(-?0 [^"]*"', "", svg)
    svg = re.sub(r' style="([^"]*)"', _attributes, svg).replace("xlink:href", "href")
    svg = re.sub(r'(?<=[ "-])\d+\.\d+', lambda found: f"{round(float(found[0]), 1):g}", svg)
    svg = re.sub(r"\s+", " ", svg).replace("> <", "><").replace(' "', '"')
    return re.sub(r"<g>(<(?:use|path|text)[^<>]*/>)</g>|<g></g>|<defs></defs>", r"\1", svg)


def _attributes(style: re.Match[str]) -> str:
    pairs = (each.partition(":")[::2] for each in style[1].split(";") if each.strip())
    return "".join(
        f' {name.strip()}="{value.strip()}"'
        for name, value in pairs
        if name.strip() not in ("font-family", "stroke-linecap", "stroke-linejoin")
    )


@contextmanager
def _new_figure(width: float, height: float) -> Iterator[Figure]:
    check_matplotlib()
    from matplotlib.figure import Figure

    with _style():
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure


@contextmanager
def _style() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # A name in letters that this font does not have is drawn by the reader's.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
