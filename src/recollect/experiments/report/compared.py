"""All four scores of a configuration beside the paper's, and how many of the paper's are ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from recollect.experiments import paper
from recollect.experiments.report.commands import usual
from recollect.experiments.report.rows import Configuration
from recollect.experiments.reproduce import SINGLE, Comparison, compare, metric_of
from recollect.methods import METHODS
from recollect.streams import BENCHMARKS, Benchmark

__all__ = ["METRICS", "Compared", "compared", "tallies"]

METRICS = {
    "accuracy": "Accuracy",
    "fwt": "Forward transfer",
    "bwt": "Backward transfer",
    "forgetting": "Forgetting",
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
        for setting in run.accuracy
    }


def tallies(found: Sequence[Configuration], verdicts: Sequence[Compared]) -> list[dict[str, Any]]:
    """For each benchmark and table of the paper: how many cells it has, and what ours come to.

    A cell counts once. Of several configurations it belongs to the one with the paper's
    hyper-parameters, and then to the one with most seeds.
    """
    counted: dict[tuple[str, str], dict[tuple[object, ...], str]] = {}
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
            **{
                word: list(judged.values()).count(word) for word in ("reproduced", "above", "below")
            },
        }
        for name in BENCHMARKS
        for table in (*METRICS, SINGLE)
        if (judged := counted.get((name, table)))
    ]


def _compare(known: Benchmark, each: Configuration, setting: str, metric: str) -> Comparison | None:
    summary, run = each.summary, each.first
    ours = summary.mean(metric, setting)
    if ours is None:
        return None
    if metric == "accuracy":
        return compare(known, summary, setting)
    theirs = paper.published(known.paper, setting, run.method, run.buffer, metric)
    if theirs is None or known.stands_in or run.epochs != known.epochs:
        return Comparison(ours, None, None)
    return Comparison(ours, theirs, paper.verdict(ours.mean, ours.std, ours.seeds, theirs))


def _printed(known: Benchmark, table: str) -> Iterator[tuple[str, str, int | None]]:
    """The cells that the paper has for a benchmark in one of its tables."""
    for method in METHODS:
        for buffer in (None, *paper.buffers(known.paper, method)):
            for setting in ("class", "task", "domain", "general"):
                if paper.published(known.paper, setting, method, buffer, table):
                    yield setting, method, buffer
