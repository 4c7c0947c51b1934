"""Reproduce the paper's table for a benchmark, and compare it with the published numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from recollect.errors import InputError
from recollect.experiments import paper
from recollect.experiments.paper import Published, Verdict
from recollect.experiments.plan import Plan, plan
from recollect.experiments.results import Mean, Summary
from recollect.methods import METHODS
from recollect.methods import method as method_named
from recollect.streams import Benchmark, DataUnavailable, Stream, twin

COMMON_BUFFERS = (200, 500)
SINGLE = "accuracy-single-epoch"
BOUNDS = ("joint", "sgd")


@dataclass(frozen=True)
class Cell:
    """Table row: a method with one buffer size, or without a buffer."""

    method: str
    buffer: int | None


@dataclass(frozen=True)
class Comparison:
    """Our mean in one setting, the published one, and the verdict if both exist."""

    ours: Mean
    paper: Published | None
    verdict: Verdict | None


def metric_of(benchmark: Benchmark, epochs: int | None) -> str | None:
    """Return the paper's table for runs with this number of epochs; None if there is none.

    >>> from recollect.streams import benchmark
    >>> cifar10 = benchmark("seq-cifar10")
    >>> metric_of(cifar10, None), metric_of(cifar10, 1), metric_of(cifar10, 7)
    ('accuracy', 'accuracy-single-epoch', None)
    """
    if epochs is None or epochs == benchmark.epochs:
        return "accuracy"
    return SINGLE if epochs == 1 else None


def cells(
    benchmark: Benchmark,
    methods: Sequence[str] | None = None,
    buffers: Sequence[int] | None = None,
    epochs: int | None = None,
) -> list[Cell]:
    """Return the rows of a benchmark's table: by default all published methods and buffers."""
    found = []
    metric = metric_of(benchmark, epochs) or "accuracy"
    printed = [name for name in METHODS if paper.has(benchmark.paper, name, metric)]
    bounds = [] if metric == SINGLE else BOUNDS
    for name in methods or dict.fromkeys([*bounds, *printed]):
        kind = method_named(name)
        if kind.replay is None:
            found.append(Cell(kind.name, None))
            continue
        sizes = buffers or paper.buffers(benchmark.paper, kind.name) or COMMON_BUFFERS
        found += [Cell(kind.name, size) for size in sizes]
    return list(dict.fromkeys(found))


def stream_or_stand_in(
    benchmark: Benchmark,
    folder: Path | str | None,
    notice: Callable[[str], None],
    class_order: int | str | None = None,
) -> tuple[Benchmark, Stream]:
    """Load the benchmark's stream, or its substitute over bundled data if it is unavailable."""
    try:
        return benchmark, benchmark.stream(False, folder, notice, class_order)
    except DataUnavailable as error:
        other = twin(benchmark)
        if other is None:
            raise
        notice(f"{error}")
        notice(f"using {other.name} instead of {benchmark.name}: these are not the paper's data")
        return other, other.stream(class_order=class_order)


def plans_of(
    benchmark: Benchmark, rows: Sequence[Cell], seeds: Sequence[int], epochs: int | None = None
) -> list[Plan]:
    """Build one plan for each table row, with the paper's hyper-parameters."""
    ours = partial(plan, benchmark=benchmark, seeds=seeds, epochs=epochs)
    return [ours(method_named(row.method), buffer=row.buffer) for row in rows]


def compare(
    benchmark: Benchmark, summary: Summary, setting: str, score: str = "accuracy"
) -> Comparison:
    """Compare our score in a setting with the published one.

    There is no verdict on substitute data, and for another network than the benchmark's.
    `score` is `accuracy`, `fwt`, `bwt` or `forgetting`.
    """
    ours = summary.mean(score, setting)
    if ours is None:
        raise InputError(f"these runs have no {score} in the setting {setting!r}")
    run = summary.first
    metric = metric_of(benchmark, run.epochs) or ""
    if score != "accuracy":
        metric = score if metric == "accuracy" else ""
    theirs = paper.published(benchmark.paper, setting, run.method, run.buffer, metric)
    if theirs is None or benchmark.stands_in or run.network_class:
        return Comparison(ours, None, None)
    found = paper.verdict(ours.mean, ours.std, ours.seeds, theirs)
    # A failed run increases our standard deviation, and with it what counts as equal.
    if found is not None and summary.remarks:
        found = replace(found, weak=True)
    return Comparison(ours, theirs, found)
