"""Convert runs to the compact JSON data of the report page."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from recollect import __version__
from recollect.errors import InputError
from recollect.experiments.choices import choices, usual
from recollect.experiments.figures.chart import style_of
from recollect.experiments.labels import (
    SETTINGS,
    known_first,
    meaningful,
    method_title,
    of_classes,
    setting_title,
)
from recollect.experiments.paper import Published, Verdict
from recollect.experiments.report.commands import again
from recollect.experiments.report.compared import METRICS, Compared, compared, tallies
from recollect.experiments.report.figures import figures_of
from recollect.experiments.report.recorded import recorded, recorded_by
from recollect.experiments.results import Mean, Results, Summary, optimiser_words
from recollect.experiments.store import newest_code
from recollect.methods import METHODS
from recollect.streams import BENCHMARKS
from recollect.train import Result

__all__ = ["build"]


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
    texts = _Texts()
    names = _names(found)
    verdicts = [compared(each) for each in found]
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
        "tallies": tallies(found, verdicts),
        "rows": [
            _row(each, name, verdict, texts)
            | {"variant": variant[id(each)], "why": why.get(id(each), "")}
            for each, name, verdict in zip(found, names, verdicts, strict=True)
        ],
        "texts": list(texts),
        "recorded": recorded(dict(zip(names, found, strict=True))),
        "figures": figures_of(kept, drawn or {}),
    }


class _Texts(dict[str, int]):
    """Maps each string to an index, adding new strings on demand."""

    def __missing__(self, text: str) -> int:
        return self.setdefault(text, len(self))


def _row(each: Summary, name: str, verdicts: Compared, texts: _Texts) -> dict[str, Any]:
    run, low = each.first, each.far_below
    commands = dict.fromkeys(run.provenance.command for run in each.runs)
    return {
        "id": name,
        "benchmark": run.benchmark,
        "method": run.method,
        "buffer": run.buffer,
        "epochs": run.epochs,
        "validation": run.validation,
        "hyperparameters": dict(run.hyperparameters),
        "apart": each.apart,
        "optimiser": dict(word.split(" ", 1) for word in optimiser_words(run)),
        "usual": usual(run),
        "steps": run.steps,
        "bytes": max(run.memory_bytes for run in each.runs),
        "seconds": _rounded(each.seconds, 4),
        "commands": [texts[line] for line in commands if line],
        "again": again(run, [run.seed for run in each.runs]),
        "scores": {
            setting: {metric: _mean(each.mean(metric, setting)) for metric in METRICS}
            for setting in meaningful(each.settings)
        },
        "paper": {
            setting: {
                metric: _paper(one.paper, one.verdict)
                for metric, one in by_metric.items()
                if one.paper
            }
            for setting, by_metric in verdicts.items()
        },
        "runs": [_run(run, run in low, texts) for run in each.runs],
    }


def _paper(theirs: Published, verdict: Verdict | None) -> list[Any]:
    """Return the published mean and standard deviation, and the fields of the verdict, if any."""
    judged = [verdict.kind, verdict.weak, round(verdict.allowed, 2)] if verdict else [None]
    return [theirs.mean, theirs.std, *judged]


def _run(run: Result, far_below: bool, texts: _Texts) -> dict[str, Any]:
    kept, made = recorded_by(run), run.provenance
    return {
        "seed": run.seed,
        **({"recorded": kept} if kept else {}),
        "seconds": _rounded(run.train_seconds, 4),
        "diverged": run.diverged,
        "farBelow": far_below,
        "where": texts[": ".join(filter(None, (run.device, run.execution)))],
        "machine": texts["" if made.machine == run.device else made.machine],
        "code": texts[_code(run)],
        "precision": texts[made.precision],
        "data": texts[run.stream],
        "network": texts[run.network],
        "created": texts[made.created],
        "command": texts[made.command],
        "again": again(run, [run.seed]),
        "scores": {
            setting: [_hundredths(getattr(run, metric).get(setting)) for metric in METRICS]
            for setting in meaningful(run.accuracy)
        },
        "matrix": {
            setting: [
                _without_tail([_hundredths(value) for value in line])
                for line in run.matrix[setting]
            ]
            for setting in meaningful(run.matrix)
        },
        "untrained": {
            setting: [_hundredths(value) for value in line]
            for setting, line in (run.untrained or {}).items()
        },
    }


def _code(run: Result) -> str:
    """Describe the version of the code that trained a run; empty if unknown."""
    made = run.provenance
    if not made.version:
        return ""
    facts = {"code": run.code, "commit": made.commit, "PyTorch": made.torch}
    known = [f"{name} {value}" for name, value in facts.items() if value]
    return ", ".join([f"recollect {made.version}", *known])


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


def _mean(found: Mean | None) -> list[float | int] | None:
    if found is None or not math.isfinite(found.mean):
        return None
    return [round(found.mean, 2), round(found.std, 2), found.seeds]


def _hundredths(value: float | None) -> int | None:
    return None if value is None or not math.isfinite(value) else round(100 * value)


def _rounded(value: float, digits: int) -> float | None:
    return round(value, digits) if math.isfinite(value) else None


def _without_tail(line: list[int | None]) -> list[int | None]:
    """Drop trailing empty entries; the page restores them from the longest line."""
    while line and line[-1] is None:
        line.pop()
    return line
