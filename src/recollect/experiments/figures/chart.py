"""Lines, bars and dots of methods on matplotlib's axes, and what a reader can point at."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from recollect.experiments.figures.runs import Line, Point
from recollect.experiments.figures.styles import style_of, title_of

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = ["Chart", "Entry", "Mark"]

MOST_MARKS = 30  # on a line

Words = Callable[[Point], Sequence[str]]


class Mark(NamedTuple):
    """A place in a plot that explains itself: a method's name, coordinates, and lines of text."""

    key: str
    x: float
    y: float
    transform: Any
    buffer: int | None
    lines: Sequence[str]


class Entry(NamedTuple):
    """A line of a legend."""

    artist: Line2D
    title: str


class Chart:
    """Draws methods on axes in their style; `marks` and `legend` grow with what is drawn."""

    def __init__(self, axes: Axes) -> None:
        self.axes = axes
        self.marks: list[Mark] = []
        self.legend: dict[str, Entry] = {}

    def line(
        self, line: Line, words: Words, *, band: bool = False, markers: bool = True, title: str = ""
    ) -> None:
        """Points of one method, joined; the standard deviation as bars, or as a band."""
        style, points = style_of(line.method), line.points
        x, mean = [p.x for p in points], [p.mean for p in points]
        # A logarithmic axis has no place for zero.
        least = 0.1 if self.axes.get_yscale() == "log" else -float("inf")
        low = [max(p.mean - p.std, least * abs(p.mean)) for p in points]
        high = [p.mean + p.std for p in points]
        front = 3 if line.method in ("der", "derpp") else 2
        if band:
            self._own(line.method, self.axes.fill_between(
                x, low, high, color=style.colour, alpha=0.15, linewidth=0))  # fmt: skip
        else:
            self._own(line.method, self.axes.vlines(
                x, low, high, color=style.colour, linewidth=0.8, zorder=front))  # fmt: skip
        (drawn,) = self.axes.plot(
            x, mean, color=style.colour, linestyle=style.line, zorder=front,
            marker=style.marker if markers else None,
        )  # fmt: skip
        self._list(line.method, drawn, title)
        for p in points[::-1][:: math.ceil(len(points) / MOST_MARKS)][::-1]:
            self._mark(line.method, p.x, p.mean, p.buffer, words(p))

    def level(self, method: str, point: Point, words: Words) -> None:
        """A line across, for a method that has no place on the horizontal axis."""
        style = style_of(method)
        drawn = self.axes.axhline(
            point.mean, color=style.colour, linestyle=style.line, linewidth=1.2
        )
        self._list(method, drawn)
        self._mark(
            method, 1.0, point.mean, point.buffer, words(point), self.axes.get_yaxis_transform()
        )

    def rows(self, methods: Sequence[str]) -> None:
        """A row for each method, from the top; its title stands on the left."""
        self.axes.set_yticks(range(len(methods)), [title_of(method) for method in methods])
        self.axes.set_ylim(len(methods) - 0.4, -0.6)

    def bar(self, row: int, method: str, least: float, most: float, words: Sequence[str]) -> None:
        """A bar to `least` with a thin line up to `most`, and its number beside it."""
        self._own(method, self.axes.barh(
            row, least, color=style_of(method).colour, height=0.72).patches[0])  # fmt: skip
        self.axes.plot([least, most], [row, row], color="#444444", linewidth=0.9)
        self.axes.annotate(
            f"{least:{'.0f' if least >= 100 else '.3g'}}", (most, row), xytext=(4, 0), fontsize=7.5,
            textcoords="offset points", va="center", color="#333333",
        )  # fmt: skip
        self._mark(method, least, row, None, words)

    def dots(self, row: int, line: Line, words: Words) -> None:
        """Means of one method in a row, the larger the buffer the larger the mark."""
        style, points = style_of(line.method), line.points
        means = [p.mean for p in points]
        self._own(line.method, self.axes.hlines(
            [row] * len(points), [p.mean - p.std for p in points], [p.mean + p.std for p in points],
            color=style.colour, linewidth=0.8,
        ))  # fmt: skip
        sizes = [(4 + min(place, 3)) ** 2 for place in range(len(points))]
        self._own(line.method, self.axes.scatter(
            means, [row] * len(points), s=sizes, color=style.colour, marker=style.marker
        ))  # fmt: skip
        for p in points:
            self._mark(line.method, p.mean, row, p.buffer, words(p))

    def image(self, pixels: np.ndarray) -> None:
        """Pixels from 0 to 255, grey ones as ink on paper."""
        self.axes.imshow(pixels, cmap="gray_r", vmin=0, vmax=255, interpolation="nearest")
        self.axes.set(xticks=[], yticks=[])
        self.axes.grid(visible=False)

    def log_scale(
        self, axis: str, name: Callable[[float], str], *, at: Sequence[float] = ()
    ) -> None:
        """A logarithmic axis with named ticks: at these values, or at 1, 2, 5, 10, 20, ..."""
        from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

        getattr(self.axes, f"set_{axis}scale")("log")
        scale = getattr(self.axes, f"{axis}axis")
        scale.set_major_locator(FixedLocator(list(at)) if at else LogLocator(subs=(1, 2, 5)))
        scale.set_major_formatter(lambda value, _: name(value))
        scale.set_minor_locator(NullLocator())

    def _own(self, method: str, artist: Any) -> None:
        artist.set_gid(f"key:{method}")

    def _list(self, method: str, artist: Line2D, title: str = "") -> None:
        self._own(method, artist)
        self.legend[method] = Entry(artist, title or title_of(method))

    def _mark(
        self,
        method: str,
        x: float,
        y: float,
        buffer: int | None,
        lines: Sequence[str],
        transform: Any = None,
    ) -> None:
        self.marks.append(
            Mark(method, x, y, transform or self.axes.transData, buffer, tuple(lines))
        )
