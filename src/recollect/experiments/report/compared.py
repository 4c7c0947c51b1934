"""All four scores of a configuration beside the paper's, and how many of the paper's are ours."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from recollect.experiments import paper
from recollect.experiments.labels import SCORE_TITLES, SETTINGS
from recollect.experiments.paper import Verdict
from recollect.experiments.report.commands import usual
from recollect.experiments.report.rows import Configuration
from recollect.experiments.reproduce import SINGLE, Comparison, compare, metric_of
from recollect.methods import METHODS
from recollect.streams import BENCHMARKS, Benchmark

__all__ = ["METRICS", "Compared", "compared", "tallies"]

METRICS = {
    metric: title.capitalize() for metric, title in {**SCORE_TITLES, "accuracy": "accuracy"}.items()
}

Compared = dict[str, dict[str, Comparison]]


def compared(each: Configuration) -> Compared:
    """By setting and metric, ours and the paper's.

    There is nothing to compare on a validation split, on a stand-in's data or on a benchmark that
    the paper does not have.
    """
    run = each.first
    known = BENCHMARKS.get(run.benchmark)
    if known is None or run.validation:
        return {}
    return {
        setting: {m: one for m in METRICS if (one := _compare(known, each, setting, m))}
        for setting in each.summary.settings
    }


def tallies(found: Sequence[Configuration], verdicts: Sequence[Compared]) -> list[dict[str, Any]]:
    """For each benchmark and table of the paper: how many cells it has, and what ours come to.

    Equal and close cells are reproduced; how many of all verdicts are weak is counted as well. A
    cell counts once. Of several configurations it belongs to the one with the paper's
    hyper-parameters, and then to the one with most seeds.
    """
    counted: dict[tuple[str, str], dict[tuple[object, ...], Verdict]] = {}
    order = sorted(
        range(len(found)), key=lambda n: (not usual(found[n].first), -len(found[n].rows))
    )
    for number in order:
        run = found[number].first
        for setting, by_metric in verdicts[number].items():
            for metric, one in by_metric.items():
                if one.verdict is not None:
                    table = metric
                    if metric == "accuracy":
                        table = metric_of(BENCHMARKS[run.benchmark], run.epochs) or ""
                    cells = counted.setdefault((run.benchmark, table), {})
                    cells.setdefault((setting, run.method, run.buffer), one.verdict)
    return [
        {
            "benchmark": name,
            "metric": table,
            "printed": sum(1 for _ in _printed(BENCHMARKS[name], table)),
            **_counts(judged.values()),
        }
        for name in BENCHMARKS
        for table in (*METRICS, SINGLE)
        if (judged := counted.get((name, table)))
    ]


def _compare(known: Benchmark, each: Configuration, setting: str, metric: str) -> Comparison | None:
    summary = each.summary
    return compare(known, summary, setting, metric) if summary.mean(metric, setting) else None


def _counts(judged: Collection[Verdict]) -> dict[str, int]:
    kinds = [each.kind for each in judged]
    return {
        "reproduced": sum(each.reproduced for each in judged),
        **{kind: kinds.count(kind) for kind in paper.MARKS},
        "weak": sum(each.weak for each in judged),
    }


def _printed(known: Benchmark, table: str) -> Iterator[tuple[str, str, int | None]]:
    """The cells that the paper has for a benchmark in one of its tables."""
    for method in METHODS:
        for buffer in (None, *paper.buffers(known.paper, method)):
            for setting in SETTINGS:
                if paper.published(known.paper, setting, method, buffer, table):
                    yield setting, method, buffer
