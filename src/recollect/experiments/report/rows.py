"""Rows of the report: configurations and their runs as compact JSON data."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from recollect.experiments.apart import optimiser_words
from recollect.experiments.choices import usual
from recollect.experiments.labels import SCORE_TITLES, meaningful
from recollect.experiments.paper import Published, Verdict
from recollect.experiments.report.recorded import recorded_by
from recollect.experiments.reproduce import Comparison
from recollect.experiments.results import Mean, Summary
from recollect.methods import every_method, hyperparameters, symbol
from recollect.streams import BENCHMARKS
from recollect.train import Result

METRICS = {
    metric: title.capitalize() for metric, title in {**SCORE_TITLES, "accuracy": "accuracy"}.items()
}

Compared = dict[str, dict[str, Comparison]]  # by setting and metric


class Texts(dict[str, int]):
    """Maps each string to an index, adding new strings on demand."""

    def __missing__(self, text: str) -> int:
        return self.setdefault(text, len(self))


def row(each: Summary, name: str, verdicts: Compared, texts: Texts) -> dict[str, Any]:
    """Return the data of a configuration; strings are indices into `texts`."""
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


def _run(run: Result, far_below: bool, texts: Texts) -> dict[str, Any]:
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


def again(run: Result, seeds: Sequence[int]) -> str:
    """Return the command that trains these seeds of a run again, or an empty string.

    Methods without a name and streams from arrays have no such command.
    """
    kind, known = every_method().get(run.method), BENCHMARKS.get(run.benchmark)
    if kind is None or known is None:
        return ""
    options = {"lr", "bs", "mbs", *map(symbol, hyperparameters(kind))}
    if not options.issuperset(run.hyperparameters):
        return ""
    words = ["recollect", "run", run.benchmark, run.method]
    words += [] if run.buffer is None else ["--buffer", str(run.buffer)]
    for name, value in run.hyperparameters.items():
        words += [f"--{name}", _exactly(value)]
    words += [] if run.epochs == known.epochs else ["--epochs", str(run.epochs)]
    words += ["--validation"] if run.validation else []
    return shlex.join([*words, "--seeds", _seeds(seeds)])


def _exactly(value: float) -> str:
    """Format a number with the fewest digits that round-trip.

    >>> _exactly(10.0), _exactly(0.03)
    ('10', '0.03')
    """
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _seeds(seeds: Sequence[int]) -> str:
    """Format seeds for the option --seeds.

    >>> _seeds([0, 1, 2, 5]), _seeds([3])
    ('0-2,5', '3-3')
    """
    pieces = []
    for _, found in groupby(enumerate(sorted(seeds)), key=lambda pair: pair[1] - pair[0]):
        piece = [seed for _, seed in found]
        pieces.append((piece[0], piece[-1]))
    # A single number would be a count: 3 means 0 to 2.
    alone = len(pieces) == 1
    return ",".join(f"{a}-{b}" if a < b or alone else f"{a}" for a, b in pieces)


def _paper(theirs: Published, verdict: Verdict | None) -> list[Any]:
    """Return the published mean and standard deviation, and the fields of the verdict, if any."""
    judged = [verdict.kind, verdict.weak, round(verdict.allowed, 2)] if verdict else [None]
    return [theirs.mean, theirs.std, *judged]


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
