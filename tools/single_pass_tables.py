"""The tables of the documentation that are made of the runs in folders of results/."""

from __future__ import annotations

from collections.abc import Sequence

from tools import defaults, reduced
from tools.collect import runs_in
from tools.evidence import Evidence
from tools.single_pass import FOLDER, table
from tools.table_parts import markdown

from recollect.experiments.results import Results
from recollect.streams import BENCHMARKS
from recollect.train import Result

__all__ = ["TABLES"]


def tuned(evidence: Evidence, words: Sequence[str]) -> str:
    """`single-pass BENCHMARK SETTING`: all methods that were tuned on it, at every buffer."""
    name, setting = words
    return table(_runs(name), setting)


def of_method(evidence: Evidence, words: Sequence[str]) -> str:
    """`single-pass-of METHOD`: a method wherever it was tuned, and ER beside it."""
    (name,) = words
    lines = []
    for benchmark in BENCHMARKS:
        found = {
            (each.first.method, each.first.buffer): each
            for each in Results(_runs(benchmark)).summaries()
        }
        for (method, buffer), each in sorted(found.items(), key=lambda item: item[0][1] or 0):
            if method == name:
                means = [str(each.mean("accuracy", setting)) for setting in ("class", "task")]
                other = found.get(("er", buffer))
                er = str(other.mean("accuracy", "class")) if other else "-"
                link = f"[{benchmark}](../benchmarks/{benchmark}.md)"
                shown = link if BENCHMARKS[benchmark].stands_in is None else benchmark
                lines.append([shown, str(buffer), str(len(each.runs)), *means, er])
    return markdown(["benchmark", "buffer", "seeds", "Class-IL", "Task-IL", "ER, Class-IL"], lines)


def of_defaults(evidence: Evidence, words: Sequence[str]) -> str:
    """`defaults LR BATCH`: candidates for the default of a learner on short streams."""
    lr, batch = words
    return defaults.table(defaults.read().values(), float(lr), int(batch))


def of_reduced(evidence: Evidence, words: Sequence[str]) -> str:
    """`reduced NAME`: a table of `tools.reduced`."""
    (name,) = words
    return reduced.shown(name)


def _runs(name: str) -> list[Result]:
    return runs_in(FOLDER / f"{name}.jsonl")


TABLES = {
    "single-pass": tuned,
    "single-pass-of": of_method,
    "defaults": of_defaults,
    "reduced": of_reduced,
}
