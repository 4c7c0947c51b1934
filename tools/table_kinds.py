"""Kinds of generated tables and values; each is a function of the runs and of its arguments."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import product

from tools.evidence import (
    NOT_MEASURED,
    OUTSIDE,
    VERDICTS,
    Cell,
    Evidence,
    printed,
    settings_of,
)
from tools.table_parts import (
    benchmark_title,
    buffer_in,
    buffer_of,
    columns,
    counted,
    machines,
    markdown,
    mean_of,
    seeds_of,
    table_words,
)

from recollect.experiments.figures.chart import title_of as figure_title
from recollect.experiments.labels import SCORES as ALL_SCORES
from recollect.experiments.labels import SETTINGS
from recollect.experiments.reproduce import cells
from recollect.experiments.results import Results
from recollect.experiments.search import by_criterion
from recollect.methods import title_of
from recollect.streams import BENCHMARKS, benchmark

__all__ = ["TABLES", "VALUES"]

SCORES = {score: title for score, title in ALL_SCORES.items() if score != "accuracy"}
Words = Sequence[str]


def accuracy(evidence: Evidence, words: Words) -> str:
    """`accuracy BENCHMARK [epochs=1] [METHOD ...]`: a benchmark's table next to the paper's."""
    name, epochs, methods = table_words(words)
    known = benchmark(name)
    rows = cells(known, methods or None, epochs=epochs)
    settings = [s for s in SETTINGS if any(s in settings_of(name, row.method) for row in rows)]
    if epochs:
        settings = [
            s for s in settings if any(c.setting == s for c in printed(name, epochs=epochs))
        ]
    head = ["method", "buffer", "seeds"]
    for setting in settings:
        head += [f"{SETTINGS[setting]}, ours", "paper", ""]
    lines, behind = [], []
    for row in rows:
        found = evidence.summary(name, row.method, row.buffer, epochs)
        behind += [found] if found else []
        line = [title_of(row.method), buffer_of(row.buffer), seeds_of(found)]
        for setting in settings:
            if setting in settings_of(name, row.method):
                line += columns(evidence, Cell(name, row.method, row.buffer, setting,
                                                epochs=epochs))  # fmt: skip
            else:
                line += ["-", "-", ""]
        lines.append(line)
    return f"{markdown(head, lines)}{machines(behind)}"


def scores(evidence: Evidence, words: Words) -> str:
    """`scores BENCHMARK SETTING`: transfer and forgetting, if published."""
    name, setting = words
    head = ["method", "buffer"]
    for title in SCORES.values():
        head += [f"{title}, ours", "paper", ""]
    lines = []
    for row in cells(benchmark(name)):
        found = [Cell(name, row.method, row.buffer, setting, score) for score in SCORES]
        if any(cell.paper for cell in found):
            line = [title_of(row.method), buffer_of(row.buffer)]
            for cell in found:
                line += columns(evidence, cell) if cell.paper else ["-", "-", ""]
            lines.append(line)
    return markdown(head, lines)


def summary(evidence: Evidence, words: Words) -> str:
    """`summary SCORE BENCHMARK ...`: number of published results by verdict."""
    score, *names = words
    kinds = [*VERDICTS, NOT_MEASURED]
    lines = []
    for name in names:
        name, epochs, _ = table_words(name.split(":"))
        wanted = printed(name, score, epochs)
        found = evidence.by_verdict(wanted)
        shown = f"[{name}](results/{name}.md)" if score == "accuracy" else name
        lines.append([shown + (", one epoch" if epochs else ""), str(len(wanted)),
                      *(counted(found[kind], kind in OUTSIDE) for kind in kinds)])  # fmt: skip
    what = {"accuracy": "accuracies", **SCORES}[score]
    return markdown(["benchmark", what, *kinds], lines)


def outside(evidence: Evidence, words: Words) -> str:
    """`outside SCORE ... : BENCHMARK ...`: all results above or below the paper's."""
    at = words.index(":")
    lines = []
    for name in words[at + 1 :]:
        for score in words[:at]:
            found = evidence.by_verdict(printed(name, score))
            for cell in (each for kind in OUTSIDE for each in found[kind]):
                lines.append([name, title_of(cell.method), buffer_of(cell.buffer),
                              SETTINGS[cell.setting], SCORES.get(score, score),
                              *columns(evidence, cell)])  # fmt: skip
    if not lines:
        return "None of the figures that are measured lies outside the rule."
    head = ["benchmark", "method", "buffer", "setting", "score", "ours", "paper", ""]
    return markdown(head, lines)


def of_method(evidence: Evidence, words: Words) -> str:
    """`method NAME ...`: all results of some methods in the manifest, and the missing ones."""
    tables: list[tuple[str, int | None]] = [
        (known.name, None) for known in BENCHMARKS.values() if known.stands_in is None
    ]
    tables += [(name, 1) for name, _ in tables if benchmark(name).epochs > 1]
    lines, left = [], []
    for kind, (name, epochs) in product(words, tables):
        title = benchmark_title(name, epochs)
        rows = [
            row
            for row in cells(benchmark(name), [kind], epochs=epochs)
            if evidence.is_planned(name, kind, row.buffer, epochs)
        ]
        if not rows and any(cell.method == kind for cell in printed(name, epochs=epochs)):
            left.append(title)
        for setting, row in product(settings_of(name, kind), rows):
            cell = Cell(name, kind, row.buffer, setting, epochs=epochs)
            if epochs is None or cell.paper:
                found = evidence.summary(name, kind, row.buffer, epochs)
                lines.append([title_of(kind), title, SETTINGS[setting], buffer_of(row.buffer),
                              seeds_of(found), *columns(evidence, cell)])  # fmt: skip
    head = ["method", "benchmark", "setting", "buffer", "seeds", "ours", "paper", ""]
    more = f"\n\nNot measured: {', '.join(left)}." if left else ""
    return markdown(head, lines) + more


def commands(evidence: Evidence, words: Words) -> str:
    """`commands METHOD ...` or `commands FILE ...`: matching commands of the manifest."""
    found = [
        line.command
        for line in evidence.lines
        if {*words} & {line.file, *shlex.split(line.command)}
    ]
    return "\n".join(["```sh", *found, "```"])


def some_rows(evidence: Evidence, words: Words) -> str:
    """`rows BENCHMARK SETTING [epochs=1] METHOD[:BUFFER] ...`: a few rows of a table."""
    name, epochs, (setting, *rows) = table_words(words)
    lines = []
    for row in rows:
        kind, _, size = row.partition(":")
        cell = Cell(name, kind, int(size) if size else None, setting, epochs=epochs)
        lines.append([title_of(kind), buffer_of(cell.buffer), *columns(evidence, cell)])
    return markdown(["method", "buffer", "ours", "paper", ""], lines)


def unpublished(evidence: Evidence, words: Words) -> str:
    """`unpublished BENCHMARK METHOD ...`: accuracy and forgetting, without published results."""
    name, *kinds = words
    lines = []
    for kind in kinds:
        found = evidence.summary(name, kind, None)
        means = [
            mean_of(found, "accuracy", "task"),
            mean_of(found, "forgetting", "task"),
            mean_of(found, "accuracy", "class") if "class" in settings_of(name, kind) else "-",
        ]
        lines.append([title_of(kind), seeds_of(found), *means])
    return markdown(["method", "seeds", "Task-IL", "forgetting, Task-IL", "Class-IL"], lines)


def memories(evidence: Evidence, words: Words) -> str:
    """`memories BENCHMARK SIZES METHOD ...`: Class-IL accuracy, one column per buffer size."""
    name, sizes, *kinds = words
    buffers = [int(size) for size in sizes.split(",")]
    lines = [
        [title_of(kind), *(mean_of(evidence.summary(name, kind, size), "accuracy", "class")
                           for size in buffers)]
        for kind in kinds
    ]  # fmt: skip
    return markdown(["method", *(f"{size} examples" for size in buffers)], lines)


def tried(evidence: Evidence, words: Words) -> str:
    """`tried BENCHMARK METHOD BUFFER`: all configurations on the validation split, best first."""
    name, kind, size = words
    buffer = buffer_in(size)
    found = evidence.tried(name, kind, buffer)
    if not found:
        return f"{name}: {NOT_MEASURED}."
    ranked = by_criterion(Results([run for each in found for run in each.runs]))
    names = [n for n in ranked[0].values if len({each.values[n] for each in ranked}) > 1]
    settings = [*found[0].first.accuracy]
    lines = []
    for number, each in enumerate(ranked, start=1):
        lines.append([str(number), *(f"{each.values[n]:g}" for n in names),
                      *(mean_of(each.summary, "accuracy", s) for s in settings)])  # fmt: skip
    head = ["", *(f"`{n}`" for n in names), *(SETTINGS[s] for s in settings)]
    return markdown(head, lines)


def fisher(evidence: Evidence, words: Words) -> str:
    """`fisher`: final values of the curves of the figure, with the final accuracy."""
    path = evidence.folder / "figures" / "fisher.json"
    if not path.exists():
        return f"The figure's data are {NOT_MEASURED}."
    curves = json.loads(path.read_text("utf-8"))["curves"]
    buffers = sorted({curve["buffer"] for curve in curves})
    head = ["method"]
    rows: dict[str, list[str]] = {}
    for buffer in buffers:
        head += [f"$L_k$, {buffer}", f"Class-IL, {buffer}"]
        for curve in (each for each in curves if each["buffer"] == buffer):
            row = rows.setdefault(figure_title(curve["method"]), [])
            row += [f"{curve['mean'][-1]:.1f} ±{curve['std'][-1]:.1f}",
                    f"{curve['accuracy']:.2f} ±{curve['accuracy_std']:.2f}"]  # fmt: skip
    return markdown(head, [[title, *row] for title, row in rows.items()])


def mean(evidence: Evidence, words: Words) -> str:
    """`mean BENCHMARK METHOD BUFFER SETTING [SCORE] [NAME=VALUE ...]`: one result of ours."""
    name, kind, size, setting, *more = words
    values = {n: float(v) for n, _, v in (word.partition("=") for word in more if "=" in word)}
    score = next((word for word in more if "=" not in word), "accuracy")
    buffer = buffer_in(size)
    return mean_of(evidence.summary(name, kind, buffer, values=values), score, setting)


def tally(evidence: Evidence, words: Words) -> str:
    """`tally SCORE,... BENCHMARK ...`: number of published results by verdict, as text."""
    asked, *names = words
    wanted = [cell for name in names for score in asked.split(",") for cell in printed(name, score)]
    found = evidence.tally(wanted)
    kinds = [kind for kind in VERDICTS if kind not in OUTSIDE]
    split = ", ".join(f"{found[kind]} {kind}" for kind in kinds)
    parts = [f"{sum(found[kind] for kind in kinds)} reproduced ({split})"]
    parts += [f"{found[kind]} {kind}" for kind in (*OUTSIDE, NOT_MEASURED) if found[kind]]
    return f"{len(wanted)} figures: {', '.join(parts)}"


TABLES: Mapping[str, Callable[[Evidence, Words], str]] = {
    "accuracy": accuracy,
    "scores": scores,
    "summary": summary,
    "outside": outside,
    "method": of_method,
    "commands": commands,
    "rows": some_rows,
    "unpublished": unpublished,
    "memories": memories,
    "tried": tried,
    "fisher": fisher,
}
VALUES: Mapping[str, Callable[[Evidence, Words], str]] = {"mean": mean, "tally": tally}
