"""Draw lines, bars and dots on matplotlib axes, with a consistent style for each method."""

from __future__ import annotations

import colorsys
import math
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

from recollect.experiments.figures.runs import Line, Point
from recollect.experiments.figures.task_end_logits import DERAtEnds, DERppAtEnds
from recollect.methods import title_of as known_title

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from recollect.experiments.figures.wall_clock import Bar

MOST_MARKS = 30  # per line
MARKERS = "osD^vPX*h"
FEWEST_TICKS = 3  # on a logarithmic axis

Words = Callable[[Point], Sequence[str]]
Ends = tuple[float, float]


@final
@dataclass(frozen=True)
class Style:
    """Colour, marker, line style and line width of a method."""

    colour: str
    marker: str = "o"
    line: str = "-"
    width: float = 1.5


STYLES = {
    "joint": Style("#222222", "_", ":"),
    "sgd": Style("#8a8a8a", "_", "--"),
    "oewc": Style("#6b5b4d", "s"),
    "ewc": Style("#a8978a", "s"),
    "si": Style("#8d99ae", "D"),
    "lwf": Style("#3d5a80", "^"),
    "pc": Style("#9a8c98", "v"),
    "pnn": Style("#22223b", "P"),
    "packnet": Style("#4a4e69", "X"),
    "hat": Style("#8c7aa9", "*"),
    "er": Style("#1f6fb4"),
    "mer": Style("#5fb0e5", "v"),
    "gem": Style("#1b7f4b", "s"),
    "agem": Style("#86c06c", "D"),
    "agem-r": Style("#86c06c", "D", "--"),
    "icarl": Style("#7b3fb0", "^"),
    "fdr": Style("#d770ad", "P"),
    "gss": Style("#8c5a3c", "X"),
    "hal": Style("#b59b00", "h"),
    "der": Style("#f28e2b", "s"),
    "derpp": Style("#c1121f"),
    "er-ring": Style("#17a2b8", "s"),
    "er-kmeans": Style("#0b525b", "^"),
    "er-mof": Style("#6a6fd1", "v"),
    "er-hybrid": Style("#9bb8d8", "D", "--"),
    "er-ace": Style("#00a878", "P"),
    "cls-er": Style("#b5179e", "X"),
    "x-der": Style("#7a1f1f", "^"),
    "scr": Style("#e0a100", "v"),
    "star": Style("#ef476f", "*"),
    "ncm": Style("#9c9c5e", "s", "--"),
    "slda": Style("#5e7a1f", "^", "--"),
    "ranpac": Style("#2f4f4f", "D", "--"),
    "der-at-ends": Style("#f28e2b", "s", "--"),
    "derpp-at-ends": Style("#c1121f", "o", "--"),
}

TITLES = {kind.name: kind.title for kind in (DERAtEnds, DERppAtEnds)}


def style_of(method: str) -> Style:
    """Return the style of a method; the style of a custom method is derived from its name.

    >>> style_of("derpp").colour == style_of("derpp-at-ends").colour
    True
    >>> style_of("mine").colour == style_of("mine").colour != style_of("other").colour
    True
    """
    if method in STYLES:
        return STYLES[method]
    number = zlib.crc32(method.encode())
    red, green, blue = colorsys.hls_to_rgb(number % 360 / 360, 0.38, 0.75)
    colour = f"#{round(255 * red):02x}{round(255 * green):02x}{round(255 * blue):02x}"
    return Style(colour, MARKERS[number // 360 % len(MARKERS)])


def title_of(method: str) -> str:
    """Return the title of a method in a figure.

    >>> title_of("derpp"), title_of("der-at-ends"), title_of("mine")
    ('DER++', 'DER, logits at task ends', 'mine')
    """
    return TITLES.get(method) or known_title(method)


class Mark(NamedTuple):
    """Point of a plot with a tooltip: method name, coordinates, and lines of text.

    `transform` is that of the coordinates if these are not data coordinates.
    """

    key: str
    x: float
    y: float
    buffer: int | None
    lines: Sequence[str]
    transform: Any = None


class Chart:
    """Draw methods on axes in their style.

    Drawing appends to `marks`, to `legend` (a line and its title for each method) and to `rows`
    (titles of rows, from the top).
    """

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.marks: list[Mark] = []
        self.legend: dict[str, tuple[Line2D, str]] = {}
        self.rows: list[str] = []

    def line(
        self,
        line: Line,
        words: Words,
        *,
        spread: bool = True,
        band: bool = False,
        markers: bool = True,
        title: str = "",
        style: Style | None = None,
    ) -> None:
        """Draw a line for one method, with one standard deviation as error bars or a band."""
        style, points = style or style_of(line.method), line.points
        x, mean = [p.x for p in points], [p.mean for p in points]
        # Zero cannot be drawn on a logarithmic axis.
        least = 0.1 if self.axes.get_yscale() == "log" else -math.inf
        low = [max(p.mean - p.std, least * abs(p.mean)) for p in points]
        high = [p.mean + p.std for p in points]
        front = 3 if line.method in ("der", "derpp") else 2
        if not (spread and any(p.std for p in points)):
            pass
        elif band:
            (drawn,) = self.axes.fill(
                x + x[::-1], low + high[::-1], color=style.colour, alpha=0.15, linewidth=0
            )
            _name(line.method, drawn)
        else:
            ends = zip(low, high, strict=True)
            self._segments(line.method, zip(x, x, strict=True), ends, style.colour, front)
        (joined,) = self.axes.plot(
            x, mean, color=style.colour, linestyle=style.line, linewidth=style.width, zorder=front,
            marker=style.marker if markers else None,
        )  # fmt: skip
        _name(line.method, joined)
        self.legend[line.method] = joined, title or _title(line)
        for p in points[::-1][:: math.ceil(len(points) / MOST_MARKS)][::-1]:
            self.marks.append(Mark(line.method, p.x, p.mean, p.buffer, words(p)))

    def level(self, line: Line, point: Point, words: Words) -> None:
        """Draw a horizontal line, for a method without a value on the x axis."""
        method, style = line.method, style_of(line.method)
        drawn = self.axes.axhline(
            point.mean, color=style.colour, linestyle=style.line, linewidth=1.2
        )
        _name(method, drawn)
        self.legend[method] = drawn, _title(line)
        across = self.axes.get_yaxis_transform()
        self.marks.append(Mark(method, 1.0, point.mean, point.buffer, words(point), across))

    def bars(self, bars: Sequence[Bar], words: Callable[[Bar], Sequence[str]]) -> None:
        """Draw horizontal bars up to `least`, with a thin line up to `most` and the number."""
        self._add_rows(bars)
        colours = [style_of(bar.method).colour for bar in bars]
        drawn = self.axes.barh(
            range(len(bars)), [b.least for b in bars], color=colours, height=0.72
        )
        for row, (bar, patch) in enumerate(zip(bars, drawn, strict=True)):
            _name(bar.method, patch)
            self.axes.plot([bar.least, bar.most], [row, row], color="#444444", linewidth=0.9)
            self.axes.annotate(
                f"{bar.least:{'.0f' if bar.least >= 100 else '.3g'}}", (bar.most, row),
                xytext=(4, 0), textcoords="offset points", va="center", fontsize=7.5,
                color="#333333",
            )  # fmt: skip
            self.marks.append(Mark(bar.method, bar.least, row, None, words(bar)))

    def dots(self, lines: Sequence[Line], words: Words) -> None:
        """Draw one row of markers per line; the marker size grows with the buffer."""
        self._add_rows(lines)
        for row, line in enumerate(lines):
            style, points = style_of(line.method), line.points
            rows, means = [row] * len(points), [p.mean for p in points]
            ends = [(p.mean - p.std, p.mean + p.std) for p in points]
            self._segments(line.method, ends, [(row, row)] * len(points), style.colour)
            sizes = [(4 + min(number, 3)) ** 2 for number in range(len(points))]
            _name(line.method, self.axes.scatter(
                means, rows, s=sizes, color=style.colour, marker=style.marker))  # fmt: skip
            for p in points:
                self.marks.append(Mark(line.method, p.mean, row, p.buffer, words(p)))

    def image(self, pixels: np.ndarray) -> None:
        """Draw an image of pixels from 0 to 255; greyscale is inverted (dark on white)."""
        self.axes.imshow(pixels, cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
        self.axes.set(xticks=[], yticks=[])
        self.axes.grid(visible=False)

    def log_scale(
        self, axis: str, name: Callable[[float], str], *, at: Sequence[float] = ()
    ) -> None:
        """Make an axis logarithmic, with labelled ticks at the given or at a few round values."""
        from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

        class RoundValues(LogLocator):
            def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
                return _round_values(vmin, vmax)

        getattr(self.axes, f"set_{axis}scale")("log")
        scale = getattr(self.axes, f"{axis}axis")
        scale.set_major_locator(FixedLocator(list(at)) if at else RoundValues())
        scale.set_major_formatter(lambda value, _: name(value))
        scale.set_minor_locator(NullLocator())

    def _add_rows(self, lines: Sequence[Line | Bar]) -> None:
        self.rows = [_title(line) for line in lines]
        self.axes.set_yticks(range(len(lines)), self.rows)
        self.axes.set_ylim(len(lines) - 0.4, -0.6)

    def _segments(
        self, method: str, x: Iterable[Ends], y: Iterable[Ends], colour: str, zorder: int = 2
    ) -> None:
        # One line with gaps draws in half the time of a collection of lines.
        xs, ys = ([each for ends in axis for each in (*ends, math.nan)] for axis in (x, y))
        (drawn,) = self.axes.plot(
            xs, ys, color=colour, linewidth=0.8, zorder=zorder,
            solid_capstyle="butt",
        )  # fmt: skip
        _name(method, drawn)


def _round_values(low: float, high: float) -> list[float]:
    """Return at least three, but few, round values between two bounds of a logarithmic axis.

    >>> _round_values(150, 5_000), _round_values(1, 2_000), _round_values(150, 900)
    ([200, 500, 1000, 2000, 5000], [1, 10, 100, 1000], [200.0, 400.0, 600.0, 800.0])
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for leading in ((1,), (1, 2, 5)):
        found = [n * 10**decade for decade in decades for n in leading]
        inside = [value for value in found if low <= value <= high]
        if len(inside) >= FEWEST_TICKS:
            return inside
    # Less than a decade: equal steps.
    size = math.floor(math.log10(high - low))
    steps = (part * 10.0**power for power in (size, size - 1) for part in (5, 2, 1))
    step = next(each for each in steps if (high - low) / each >= FEWEST_TICKS)
    return [round(n * step, 9) for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _title(line: Line | Bar) -> str:
    return line.title or title_of(line.method)


def _name(method: str, artist: Any) -> None:
    artist.set_gid(f"key:{method}")
