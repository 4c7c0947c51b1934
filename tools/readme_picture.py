"""Draw the README's picture: accuracy over the stream, and the animated ten-seed table.

    python tools/readme_picture.py results/seq-mnist.jsonl docs/images/readme.svg

All numbers are read from the results. Rows appear in the order in which the training of ten seeds
finishes, with the whole command scaled to ten seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np

from recollect.experiments.files import read_json
from recollect.experiments.paper import published, verdict
from recollect.experiments.results import Results, Summary
from recollect.methods import method

PLAY, HOLD = 10.0, 5.0
DRAWN = {("derpp", 500): "ours", ("er", 500): "other", ("sgd", None): "none"}
METHODS = ("sgd", "er", "der", "derpp")
LEFT, TOP, WIDTH, HEIGHT = 58, 66, 330, 250
TABLE, ROW = 440, 25
STYLE = """
.paper { fill: #ffffff }
text { font: 14px system-ui, sans-serif; fill: #1f2328 }
.number { font: 13px ui-monospace, monospace } .small { font-size: 12px; fill: #656d76 }
.title { font-weight: 600 } .end { text-anchor: end } .middle { text-anchor: middle }
.axis { stroke: #d0d7de } path { fill: none; stroke-width: 2.5 }
.ours { stroke: #1a7f5a } .other { stroke: #3867d6 } .none { stroke: #c0392b }
circle.ours { fill: #1a7f5a } circle.other { fill: #3867d6 } circle.none { fill: #c0392b }
text.ours { fill: #1a7f5a; stroke: none } text.other { fill: #3867d6; stroke: none }
text.none { fill: #c0392b; stroke: none }
@media (prefers-color-scheme: dark) {
  .paper { fill: #0d1117 } text { fill: #e6edf3 } .small { fill: #9198a1 } .axis { stroke: #3d444d }
  .ours { stroke: #3fb98a } .other { stroke: #79a4ff } .none { stroke: #ff7b72 }
  circle.ours, text.ours { fill: #3fb98a } circle.other, text.other { fill: #79a4ff }
  circle.none, text.none { fill: #ff7b72 }
}
"""
MOVING = (
    "@media (prefers-reduced-motion: no-preference) "
    f"{{ .row {{ animation: {PLAY + HOLD:g}s infinite }} }}\n"
)


def main() -> None:
    """Read the results, and write the picture."""
    if len(sys.argv) != 3:
        sys.exit("usage: python tools/readme_picture.py RESULTS PICTURE.svg")
    source, target = map(Path, sys.argv[1:])
    rows = Results([run for run in read_json(source) if run.method in METHODS]).summaries()
    paper = '<rect class="paper" width="100%" height="100%" rx="8"/>'
    parts = [paper, *curves(rows), *table(rows)]
    moments = "".join(keyframes(rows)) + MOVING
    height = TOP + ROW * (len(rows) + 3)
    target.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 930 {height}" role="img" '
        f'aria-label="Accuracy along Sequential MNIST, and the table of ten seeds">\n'
        f"<style>{STYLE}{moments}</style>\n" + "\n".join(parts) + "\n</svg>\n",
        encoding="utf-8",
    )


def curves(rows: list[Summary]) -> Iterator[str]:
    """Draw the accuracy on all classes so far after each task: mean and spread over seeds."""
    yield words(LEFT, 24, "Accuracy on all digits met so far", "title")
    yield words(LEFT, 44, "Sequential MNIST, Class-IL, mean and spread of ten seeds", "small")
    for percent in (0, 25, 50, 75, 100):
        y = place(percent)
        yield f'<path class="axis" style="stroke-width:1" d="M{LEFT},{y} h{WIDTH}"/>'
        yield words(LEFT - 8, y + 4, f"{percent}", "small end")
    for row in rows:
        kind = DRAWN.get((row.first.method, row.first.buffer))
        if kind is None:
            continue
        so_far = np.array([_so_far(run.matrix["class"]) for run in row.runs])
        mean, spread = so_far.mean(0), so_far.std(0, ddof=1)
        x = LEFT + WIDTH * np.arange(1, len(mean) + 1) / len(mean)
        points = [f"{a:.1f},{place(b):.1f}" for a, b in zip(x, mean, strict=True)]
        yield f'<path class="{kind}" d="M{" L".join(points)}"/>'
        for a, b, s in zip(x, mean, spread, strict=True):
            yield f'<circle class="{kind}" cx="{a:.1f}" cy="{place(b):.1f}" r="3.5"/>'
            yield f'<path class="{kind}" d="M{a:.1f},{place(b - s):.1f} V{place(b + s):.1f}"/>'
        held = "" if row.first.buffer is None else f", {row.first.buffer} examples kept"
        label = f"{method(row.first.method).title}{held}"
        above = 24 if kind == "other" else -12
        yield words(x[2], place(mean[2]) + above, label, f"{kind} middle")
    for task in range(1, 6):
        digits = f"{2 * task - 2}, {2 * task - 1}"
        yield words(LEFT + WIDTH * task / 5, place(0) + 20, digits, "small middle")
    yield words(LEFT, place(0) + 42, "digits that arrived, two at a time →", "small")


def table(rows: list[Summary]) -> Iterator[str]:
    """Draw the table, whose rows appear when ten seeds are finished."""
    yield words(TABLE, 24, "make run: ten seeds of each, beside the paper", "title")
    columns = (TABLE, TABLE + 130, TABLE + 260, TABLE + 380, TABLE + 470)
    heads = ("method", "buffer", "ours", "paper", "s per run")
    for number, (x, head) in enumerate(zip(columns, heads, strict=True)):
        yield words(x, TOP, head, "small" if number == 0 else "small end")
    for number, row in enumerate(rows):
        run, mine = row.first, row.mean("accuracy", "class")
        paper = published(run.benchmark, "class", run.method, run.buffer, "accuracy")
        assert mine is not None
        assert paper is not None
        judged = verdict(mine.mean, mine.std, mine.seeds, paper)
        mark = judged.mark if judged else ""
        y = TOP + ROW * (number + 1)
        cells = (str(run.buffer or ""), str(mine), f"{paper} {mark}", f"{row.seconds:.2f}")
        inside = [words(TABLE, y, method(run.method).title)]
        inside += [
            words(x, y, cell, "number end") for x, cell in zip(columns[1:], cells, strict=True)
        ]
        yield f'<g class="row" style="animation-name:row{number}">{"".join(inside)}</g>'
    yield words(
        TABLE, TOP + ROW * (len(rows) + 1) + 8, "Class-IL accuracy. ✓ as published", "small"
    )


def keyframes(rows: list[Summary]) -> Iterator[str]:
    """Animation keyframes that show each row at its training time."""
    done = np.cumsum([row.seconds for row in rows])
    for number, moment in enumerate(done / done[-1]):
        at = 100 * moment * PLAY / (PLAY + HOLD)
        yield f"@keyframes row{number} {{ 0%, {at - 1:.1f}% {{ opacity: 0 }} {at:.1f}%, 100% "
        yield "{ opacity: 1 } }\n"


def place(percent: float) -> float:
    """Return the y coordinate of a percentage."""
    return TOP + HEIGHT * (1 - percent / 100)


def words(x: float, y: float, text: str, kind: str = "") -> str:
    """Return an SVG text element."""
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}">{escape(text)}</text>'


def _so_far(matrix: Sequence[Sequence[float | None]]) -> list[float]:
    """Mean accuracy on the tasks so far, after each task."""
    return [float(np.mean([v or 0.0 for v in row[: t + 1]])) for t, row in enumerate(matrix)]


if __name__ == "__main__":
    main()
