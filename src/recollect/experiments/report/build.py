"""Convert runs to the compact JSON data of the report page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from recollect import __version__
from recollect.errors import InputError
from recollect.experiments import paper
from recollect.experiments.choices import choices, usual
from recollect.experiments.figures.chart import style_of
from recollect.experiments.labels import (
    SCORES,
    SETTINGS,
    known_first,
    meaningful,
    method_title,
    of_classes,
    setting_title,
)
from recollect.experiments.paper import Verdict
from recollect.experiments.report.figures import figures_of
from recollect.experiments.report.recorded import recorded
from recollect.experiments.report.rows import METRICS, Compared, Texts, row
from recollect.experiments.reproduce import SINGLE, compare, metric_of
from recollect.experiments.results import Results, Summary
from recollect.experiments.store import newest_code
from recollect.methods import METHODS
from recollect.streams import BENCHMARKS, Benchmark
from recollect.train import Result


def build(runs: Sequence[Result], drawn: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Build the data of the report page from runs and from figures made separately.

    Percentages of single runs are stored as integer hundredths. Means are rounded to hundredths,
    after the verdicts are computed. Strings shared by many runs are stored as indices into `texts`.
    """
    if not runs:
        raise InputError("there are no runs to report: train some with `recollect reproduce`")
    shown = [run for run in runs if of_classes(run)]
    if not shown:
        raise InputError(
            f"the report supports classification only, and {len(runs)} runs are regression or "
            f"multi-label: use `recollect results` and `recollect compare` for them"
        )
    kept = newest_code(shown)
    found = _ordered(Results(kept).summaries())
    grouped = choices(found)
    why = {id(each.shown): each.why for each in grouped}
    variant = {id(each): one.variant for one in grouped for each in one.configurations}
    texts = Texts()
    names = _names(found)
    verdicts = [_compared(each) for each in found]
    titles = {each.first.method: method_title(each.first) for each in found}
    return {
        "version": __version__,
        "runs": len(kept),
        "repeated": len(shown) - len(kept),
        "settings": {
            setting: setting_title(setting)
            for setting in known_first(
                (s for each in found for s in meaningful(each.settings)), SETTINGS
            )
        },
        "metrics": METRICS,
        "methods": {
            method: {"title": titles[method], "colour": style_of(method).colour}
            for method in known_first(titles, METHODS)
        },
        "benchmarks": {
            name: _benchmark(name)
            for name in known_first((each.first.benchmark for each in found), BENCHMARKS)
        },
        "tallies": _tallies(found, verdicts),
        "rows": [
            row(each, name, verdict, texts)
            | {"variant": variant[id(each)], "why": why.get(id(each), "")}
            for each, name, verdict in zip(found, names, verdicts, strict=True)
        ],
        "texts": list(texts),
        "recorded": recorded(dict(zip(names, found, strict=True))),
        "figures": figures_of(kept, drawn or {}),
    }


def _compared(each: Summary) -> Compared:
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


def _tallies(found: Sequence[Summary], verdicts: Sequence[Compared]) -> list[dict[str, Any]]:
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


def _benchmark(name: str) -> dict[str, Any]:
    known = BENCHMARKS.get(name)
    if known is None:
        return {"about": "", "standsIn": None, "epochs": None}
    return {"about": known.description, "standsIn": known.stands_in, "epochs": known.epochs}


def _ordered(found: Sequence[Summary]) -> list[Summary]:
    """Sort as in the paper's tables; unknown names come last, alphabetically, and seeds ascend."""
    benchmarks = known_first((each.first.benchmark for each in found), BENCHMARKS)
    methods = known_first((each.first.method for each in found), METHODS)

    def key(each: Summary) -> tuple[object, ...]:
        run = each.first
        return (
            benchmarks.index(run.benchmark), run.validation, run.epochs,
            methods.index(run.method), run.buffer or 0, not usual(run),
        )  # fmt: skip

    return [
        replace(each, runs=tuple(sorted(each.runs, key=lambda run: run.seed)))
        for each in sorted(found, key=key)
    ]


def _names(found: Sequence[Summary]) -> list[str]:
    """Return a unique, URL-safe name for each configuration."""
    names, taken = [], Counter[str]()
    for run in (each.first for each in found):
        parts = [run.benchmark, run.method]
        parts += [] if run.buffer is None else [str(run.buffer)]
        parts += ["validation"] if run.validation else []
        name = "/".join(re.sub(r"[^\w.+-]", "-", part, flags=re.ASCII) or "-" for part in parts)
        taken[name] += 1
        names.append(name if taken[name] == 1 else f"{name}~{taken[name]}")
    return names
