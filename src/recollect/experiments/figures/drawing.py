"""Render figures with matplotlib: all plots in one file, or each plot as an SVG."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from recollect.experiments.figures.chart import Chart
from recollect.experiments.labels import known_first
from recollect.extras import needs
from recollect.methods import METHODS

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

COLOURS_OF_A_PNG = 128
POINTS_PER_INCH = 72
LINES = {"--": " (dashed)", ":": " (dotted)"}
# Size of a single plot, in inches.
WIDTH, HEIGHT, ROW = 4.6, 3.2, 0.22
LEFT, RIGHT, BOTTOM, TOP = 0.65, 0.2, 0.48, 0.08
LABEL, LETTER = 0.17, 0.07
MARGIN = 0.01  # left and right of title and note, as a fraction of the width

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
    """Plot with one pair of axes; the report filters plots by benchmark, buffer and view.

    `variant` distinguishes networks and data that share the benchmark's name.
    """

    title: str
    draw: Callable[[Chart], None]
    benchmark: str = ""
    buffer: int | None = None
    view: str = ""
    variant: str = ""

    @classmethod
    def of(cls, panel: Any, draw: Callable[[Any, Chart], None], **where: Any) -> Plot:
        """Return the plot of a panel, which has a title, a benchmark and a variant.

        `draw` draws the panel, and `where` has the buffer and the view, if the panel has them.
        """
        drawn = partial(draw, panel)
        return cls(panel.title, drawn, panel.benchmark, variant=panel.variant, **where)


@final
@dataclass(frozen=True)
class Drawing:
    """Figure: plots in row order (or column order with `down`), each of a size in inches."""

    title: str
    note: str
    plots: Sequence[Plot]
    columns: int
    size: tuple[float, float]
    down: bool = False
    images: bool = False


def check_matplotlib() -> None:
    """Raise an error if matplotlib is not installed."""
    with needs("matplotlib", extra="figures", what="drawing a figure"):
        import matplotlib  # noqa: F401


def compose(drawing: Drawing) -> Figure:
    """Draw all plots of a figure on one page, with its title above and a note below."""
    columns = min(drawing.columns, len(drawing.plots))
    rows = math.ceil(len(drawing.plots) / columns)
    width, height = drawing.size
    check_matplotlib()
    from matplotlib.figure import Figure

    with _style():
        size = (columns * width + 0.6, rows * height + 1.0)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False)
        charts = [Chart(axes) for axes in (grid.T if drawing.down else grid).flat]
        for plot, chart in zip(drawing.plots, charts, strict=False):
            plot.draw(chart)
            chart.axes.set_title(plot.title)
        for chart in charts[len(drawing.plots) :]:
            chart.axes.set_axis_off()
        entries = {key: entry for chart in charts for key, entry in chart.legend.items()}
        beside = 0.0
        if entries:
            lines, titles = zip(
                *(entries[key] for key in known_first(entries, METHODS)), strict=True
            )
            legend = figure.legend(lines, titles, loc="outside right upper")
            beside = legend.get_window_extent().width
        title = figure.suptitle(
            drawing.title, x=MARGIN, ha="left", fontsize=12, fontweight="bold", color="#111111"
        )
        note = figure.supxlabel(drawing.note, x=MARGIN, ha="left", fontsize=8, color="#555555")
        wide = (1 - 2 * MARGIN) * figure.bbox.width
        _wrap(title, wide - beside)
        _wrap(note, wide)
        # Compute the layout once: recomputed for every file, it would differ slightly.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def _wrap(text: Text, width: float) -> None:
    """Break lines between words so that they are at most this wide, in pixels."""
    lines = []
    for line in text.get_text().split("\n"):
        fitting = ""
        for word in line.split():
            text.set_text(f"{fitting} {word}".lstrip())
            if fitting and text.get_window_extent().width > width:
                lines.append(fitting)
                fitting = word
            else:
                fitting = text.get_text()
        lines.append(fitting)
    text.set_text("\n".join(lines))


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, SVG or PDF, by file suffix; equal data give identical files."""
    from PIL import Image

    with _style():
        if path.suffix != ".png":
            dates = {".svg": "Date", ".pdf": "CreationDate"}
            figure.savefig(path, metadata={dates[path.suffix]: None})
            return
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=160)
    # Line drawings need few colours: a palette reduces the file to a third. K-means moves the
    # colours of the palette to those of the lines, which otherwise differ from the SVG.
    every = Image.open(drawn).convert("RGB")
    few = every.quantize(COLOURS_OF_A_PNG, kmeans=2, dither=Image.Dither.NONE)
    few.save(path, optimize=True)


def pictures(drawing: Drawing) -> list[dict[str, Any]]:
    """Render each plot as an SVG without title, with marks and a legend, for the report page.

    A mark is a point with a tooltip, `[key, x, y, buffer, line of text, ...]` in SVG units; a
    legend entry is `[key, title, colour]`. The elements of a method have its name as `data-key`.
    Plots of images are combined into one SVG.
    """
    check_matplotlib()
    from matplotlib.figure import Figure

    if drawing.images:
        whole = compose(replace(drawing, title="", note=""))
        return [{"svg": _svg(whole), "wide": True, "benchmark": drawing.plots[0].benchmark}]
    with _style():
        # All plots reuse the same axes, as creating ticks takes half of the time.
        figure = Figure()
        figure.add_subplot().tick_params(bottom=False, left=False, pad=5)
        return [_picture(plot, figure) for plot in drawing.plots]


def _picture(plot: Plot, figure: Figure) -> dict[str, Any]:
    (axes,) = figure.axes
    for artist in (*axes.lines, *axes.collections, *axes.patches, *axes.texts):
        artist.remove()
    axes.relim()
    axes.set_autoscale_on(True)
    chart = Chart(axes)
    plot.draw(chart)
    height = 0.6 + ROW * len(chart.rows) if chart.rows else HEIGHT
    _lay_out(figure, height, max(map(len, chart.rows), default=0))
    svg = _svg(figure)
    marks: list[list[Any]] = []
    for mark in chart.marks:
        x, y = (mark.transform or axes.transData).transform((mark.x, mark.y))
        top = height * POINTS_PER_INCH - y
        marks.append([mark.key, round(x, 1), round(top, 1), mark.buffer, *mark.lines])
    legend = [
        [key, title + LINES.get(str(line.get_linestyle()), ""), str(line.get_color())]
        for key, (line, title) in chart.legend.items()
    ]
    head = {
        name: getattr(plot, name) for name in ("title", "benchmark", "buffer", "view", "variant")
    }
    return {**head, "svg": svg, "marks": marks, "legend": legend}


def _lay_out(figure: Figure, height: float, letters: int) -> None:
    """Set fixed margins and label positions; automatic layout would render all text twice."""
    left = min(0.2 + LETTER * letters, WIDTH / 2) if letters else LEFT
    figure.set_size_inches(WIDTH, height)
    figure.subplots_adjust(left / WIDTH, BOTTOM / height, 1 - RIGHT / WIDTH, 1 - TOP / height)
    wide, high = WIDTH - left - RIGHT, height - BOTTOM - TOP
    figure.axes[0].xaxis.set_label_coords(0.5, (LABEL - BOTTOM) / high)
    figure.axes[0].yaxis.set_label_coords((LABEL - left) / wide, 0.5)


def _svg(figure: Figure) -> str:
    """Render a figure as a compact SVG for embedding in a page with others.

    Inline styles become attributes, as the page's content security policy requires. Unreferenced
    ids are removed, as they would not be unique in the page.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    for patch in (figure.patch, *(axes.patch for axes in figure.axes)):
        patch.set_visible(False)
    file = io.StringIO()
    # Unlike `savefig`, this does not draw everything twice for the layout.
    FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})  # type: ignore[no-untyped-call]
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
def _style() -> Iterator[None]:
    import matplotlib

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # Characters that are missing from this font are rendered by the viewer's font.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
