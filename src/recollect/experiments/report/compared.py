"""Compare configurations with the published results, and count the reproduced ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from recollect.experiments import paper
from recollect.experiments.choices import usual
from recollect.experiments.labels import SCORE_TITLES, SCORES, SETTINGS, meaningful
from recollect.experiments.paper import Verdict
from recollect.experiments.reproduce import SINGLE, Comparison, compare, metric_of
from recollect.experiments.results import Summary
from recollect.methods import METHODS
from recollect.streams import BENCHMARKS, Benchmark

__all__ = ["METRICS", "Compared", "compared", "tallies"]

METRICS = {
    metric: title.capitalize() for metric, title in {**SCORE_TITLES, "accuracy": "accuracy"}.items()
}

Compared = dict[str, dict[str, Comparison]]


def compared(each: Summary) -> Compared:
    """Compare a configuration with the published results, by setting and metric.

    Empty for a validation split, for substitute data, for a custom network and for a benchmark that
    is not in the paper.
    """
    run = each.first
    known = BENCHMARKS.get(run.benchmark)
    if known is None or run.validation or run.network_class:
        return {}
    return {
        setting: {
            metric: compare(known, each, setting, metric)
            for metric in SCORES
            if each.mean(metric, setting)
        }
        for setting in meaningful(each.settings)
    }


def tallies(found: Sequence[Summary], verdicts: Sequence[Compared]) -> list[dict[str, Any]]:
    """Count the verdicts for each benchmark and table of the paper.

    Equal and close cells count as reproduced, and weak verdicts are counted too. Each cell counts
    once: of several configurations, the one with the paper's hyper-parameters is used, or else the
    one with the most seeds.
    """
    counted: dict[tuple[str, str], dict[tuple[object, ...], Verdict]] = {}
    pairs = sorted(
        zip(found, verdicts, strict=True),
        key=lambda pair: (not usual(pair[0].first), -len(pair[0].runs)),
    )
    for summary, compared_by_setting in pairs:
        run = summary.first
        for setting, by_metric in compared_by_setting.items():
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
            "printed": _printed(BENCHMARKS[name], table),
            "reproduced": sum(each.reproduced for each in judged.values()),
            **{kind: sum(each.kind == kind for each in judged.values()) for kind in paper.MARKS},
            "weak": sum(each.weak for each in judged.values()),
        }
        for name in BENCHMARKS
        for table in (*SCORES, SINGLE)
        if (judged := counted.get((name, table)))
    ]


def _printed(known: Benchmark, table: str) -> int:
    """Number of published results for a benchmark in one of the paper's tables."""
    return sum(
        paper.published(known.paper, setting, method, buffer, table) is not None
        for method in METHODS
        for buffer in (None, *paper.buffers(known.paper, method))
        for setting in SETTINGS
    )
