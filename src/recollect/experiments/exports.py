"""Results as tables for other programs and for papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from typing import Any

from recollect.experiments.labels import (
    SCORES,
    SETTINGS,
    known_first,
    method_title,
    setting_title,
)
from recollect.experiments.results import Results, Summary

__all__ = ["FORMATS", "columns", "exported", "mean_cells"]

# The columns of a CSV around scores and hyper-parameters: fields of `Result`.
BEFORE = ("benchmark", "method", "buffer", "seed", "epochs", "validation")
AFTER = (
    "train_seconds", "steps", "memory_bytes", "diverged", "device", "execution", "precision",
    "optimiser", "stream", "network", "network_class", "code",
)  # fmt: skip


def exported(results: Results, suffix: str) -> str:
    """The results as text in one of the `FORMATS`.

    A CSV has a line for every run; Markdown and LaTeX have means over seeds.
    """
    return FORMATS[suffix](results)


def columns(results: Results) -> dict[str, list[Any]]:
    """The runs as named columns with a value for every run; None where a run has none.

    Scores are named by setting, as in `accuracy Class-IL`; `title` is the method's title, and there
    is a column for every hyper-parameter.
    """
    settings = known_first((s for run in results for s in run.accuracy), SETTINGS)
    names = sorted({name for run in results for name in run.hyperparameters})
    found = {name: [getattr(run, name) for run in results] for name in BEFORE}
    found["title"] = [method_title(run) for run in results]
    for score, word in SCORES.items():
        for setting in settings:
            values = [getattr(run, score).get(setting) for run in results]
            found[f"{word} {setting_title(setting)}"] = values
    for name in names:
        taken = name in (*BEFORE, *AFTER)
        values = [run.hyperparameters.get(name) for run in results]
        found[f"hyper-parameter {name}" if taken else name] = values
    return found | {name: [getattr(run, name) for run in results] for name in AFTER}


def _csv(results: Results) -> str:
    text, table = io.StringIO(), columns(results)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    for cells in zip(*table.values(), strict=True):
        writer.writerow(["" if c is None else int(c) if isinstance(c, bool) else c for c in cells])
    return text.getvalue()


def _markdown(results: Results) -> str:
    note, head, *rows = _means(results)
    lines = [head, ["---"] * len(head), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
    return f"{table}\n{note[0]}\n" if note else table


def _latex(results: Results) -> str:
    note, head, *rows = _means(results)
    lines = [r" & ".join(_escaped(cell) for cell in row) + r" \\" for row in (head, *rows)]
    numbers = [all(_is_number(row[at]) for row in rows) for at in range(len(head))]
    begin = r"\begin{tabular}{" + "".join("r" if each else "l" for each in numbers) + "}"
    body = [*(f"% {each}" for each in note), begin, r"\toprule", lines[0], r"\midrule", *lines[1:]]
    return "\n".join([*body, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _means(results: Results) -> list[list[str]]:
    """What all rows have in common (or nothing), a head, and a row for every configuration.

    Hyper-parameters that vary within a method have a column each, and so have epochs and split.
    The others are in words in the last column, unless they are the same in all rows.
    """
    summaries = results.summaries()
    settings = known_first((s for run in results for s in run.accuracy), SETTINGS)
    varying = [name for name in ("epochs", "validation")
               if len({getattr(run, name) for run in results}) > 1]  # fmt: skip
    spanned = _spanned(summaries)
    rest = [_rest(each, spanned) for each in summaries]
    same = len({*rest}) == 1
    head = ["benchmark", "method", "buffer", *spanned, *varying, "seeds"]
    head += [setting_title(setting) for setting in settings]
    rows = []
    for each, others in zip(summaries, rest, strict=True):
        run = each.first
        start, (seeds, *means) = (cells := mean_cells(each, settings))[:3], cells[3:]
        values = [_number(run.hyperparameters.get(name)) for name in spanned]
        more = [str(getattr(run, name)).lower() for name in varying]
        rows.append([*start, *values, *more, seeds, *means, *([] if same else [others])])
    note = [f"All rows: {rest[0]}."] if same and rest[0] else []
    return [note, head + ([] if same else ["values"]), *rows]


def _spanned(summaries: Sequence[Summary]) -> list[str]:
    """The hyper-parameters that have several values within one method on one stream."""
    found: dict[tuple[str, str, str], set[float]] = {}
    for each in summaries:
        for name, value in each.first.hyperparameters.items():
            found.setdefault((each.first.benchmark, each.first.method, name), set()).add(value)
    return list(dict.fromkeys(name for (*_, name), values in found.items() if len(values) > 1))


def _rest(summary: Summary, spanned: Sequence[str]) -> str:
    values = summary.first.hyperparameters.items()
    said = [f"{name} {value:g}" for name, value in values if name not in spanned]
    return ", ".join([*said, *filter(None, [summary.apart])])


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _is_number(text: str) -> bool:
    return not text or text[0].isdigit() or text[0] in "-+"


def mean_cells(summary: Summary, settings: Sequence[str]) -> list[str]:
    """The start of a row: benchmark, method, buffer, seeds, and mean accuracies in settings."""
    run = summary.first
    means = (summary.mean("accuracy", setting) for setting in settings)
    return [
        run.benchmark,
        method_title(run),
        "" if run.buffer is None else str(run.buffer),
        str(len(summary.runs)),
        *("" if mean is None else str(mean) for mean in means),
    ]


def _escaped(text: str) -> str:
    for character in "&%$#_{}":
        text = text.replace(character, f"\\{character}")
    return text.replace("±", r"$\pm$")


FORMATS: dict[str, Callable[[Results], str]] = {".csv": _csv, ".md": _markdown, ".tex": _latex}
