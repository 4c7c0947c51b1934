"""Formatting of the tables of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tools.evidence import NOT_MEASURED, Cell, Evidence, mark

from recollect.experiments.results import Summary
from recollect.methods import title_of

__all__ = [
    "benchmark_title", "buffer_in", "buffer_of", "columns", "counted", "machines",
    "markdown", "mean_of", "seeds_of", "table_words",
]  # fmt: skip


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Format a Markdown table.

    >>> print(markdown(["a", ""], [["1", "✓"]]))
    | a | |
    | --- | --- |
    | 1 | ✓ |
    """
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|"
                     for row in rows)  # fmt: skip


def columns(evidence: Evidence, cell: Cell) -> list[str]:
    """Return cells with our result, the published one and the verdict."""
    one = evidence.compared(cell)
    return [
        NOT_MEASURED if one is None else str(one.ours),
        "-" if cell.paper is None else str(cell.paper),
        mark(one),
    ]


def mean_of(found: Summary | None, score: str, setting: str) -> str:
    """Format a mean over seeds with its standard deviation."""
    mean = found and found.mean(score, setting)
    return str(mean) if mean else NOT_MEASURED


def seeds_of(found: Summary | None) -> str:
    """Format the number of seeds of a row, and of those that diverged or are far below."""
    return "-" if found is None else ", ".join(filter(None, [str(len(found.runs)), found.remarks]))


def buffer_of(size: int | None) -> str:
    """Format a buffer size as a table cell."""
    return "-" if size is None else str(size)


def buffer_in(word: str) -> int | None:
    """Parse a buffer size; `-` means none."""
    return None if word == "-" else int(word)


def counted(cells: Sequence[Cell], with_names: bool) -> str:
    """Format the number of cells, optionally with their methods.

    >>> counted([Cell("seq-mnist", "lwf", None, "class")], with_names=True)
    '1: LwF'
    """
    names = dict.fromkeys(title_of(cell.method) for cell in cells)
    return f"{len(cells)}: {', '.join(names)}" if with_names and cells else str(len(cells))


def machines(found: Sequence[Summary]) -> str:
    """Return a paragraph on the devices and execution modes behind a table."""
    ways = dict.fromkeys(f"{run.device} ({run.execution})" for each in found for run in each.runs)
    return f"\n\nTrained on: {'; '.join(ways)}." if ways else ""


def benchmark_title(name: str, epochs: int | None) -> str:
    """Return a benchmark's name, with the number of epochs if it is not the default."""
    return name if epochs is None else f"{name}, one epoch"


def table_words(words: Sequence[str]) -> tuple[str, int | None, list[str]]:
    """Parse the arguments of a table: benchmark, epochs (None: default) and other words.

    >>> table_words(["seq-cifar10", "epochs=1", "er"])
    ('seq-cifar10', 1, ['er'])
    """
    name, *rest = words
    return name, 1 if "epochs=1" in rest else None, [w for w in rest if w != "epochs=1"]
