"""What the tables of the documentation are put together from."""

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
    """A table in Markdown.

    >>> print(markdown(["a", ""], [["1", "✓"]]))
    | a | |
    | --- | --- |
    | 1 | ✓ |
    """
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|"
                     for row in rows)  # fmt: skip


def columns(evidence: Evidence, cell: Cell) -> list[str]:
    """Ours, the paper's and the verdict's mark."""
    one = evidence.compared(cell)
    return [
        NOT_MEASURED if one is None else str(one.ours),
        "-" if cell.paper is None else str(cell.paper),
        mark(one),
    ]


def mean_of(found: Summary | None, score: str, setting: str) -> str:
    """A mean over seeds with its deviation."""
    mean = found and found.mean(score, setting)
    return str(mean) if mean else NOT_MEASURED


def seeds_of(found: Summary | None) -> str:
    """How many seeds stand behind a row, and how many diverged or lie far below the others."""
    return "-" if found is None else ", ".join(filter(None, [str(len(found.runs)), found.remarks]))


def buffer_of(size: int | None) -> str:
    """A buffer as a cell of a table."""
    return "-" if size is None else str(size)


def buffer_in(word: str) -> int | None:
    """A buffer as a word of a remark; - is none."""
    return None if word == "-" else int(word)


def counted(cells: Sequence[Cell], with_names: bool) -> str:
    """How many cells, and of which methods.

    >>> counted([Cell("seq-mnist", "lwf", None, "class")], with_names=True)
    '1: LwF'
    """
    names = dict.fromkeys(title_of(cell.method) for cell in cells)
    return f"{len(cells)}: {', '.join(names)}" if with_names and cells else str(len(cells))


def machines(found: Sequence[Summary]) -> str:
    """The devices behind a table, and how its steps were carried out, as a paragraph."""
    ways = dict.fromkeys(f"{run.device} ({run.execution})" for each in found for run in each.runs)
    return f"\n\nTrained on: {'; '.join(ways)}." if ways else ""


def benchmark_title(name: str, epochs: int | None) -> str:
    """A benchmark's name, with the number of epochs if it is not the usual one."""
    return name if epochs is None else f"{name}, one epoch"


def table_words(words: Sequence[str]) -> tuple[str, int | None, list[str]]:
    """The benchmark, the epochs (None: the usual ones) and the other words of a remark.

    >>> table_words(["seq-cifar10", "epochs=1", "er"])
    ('seq-cifar10', 1, ['er'])
    """
    name, *rest = words
    return name, 1 if "epochs=1" in rest else None, [w for w in rest if w != "epochs=1"]
