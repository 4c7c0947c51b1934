"""Export results: CSV with one row per run, Markdown and LaTeX tables of means, JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from recollect.errors import InputError
from recollect.experiments.files import LINES, write_runs
from recollect.experiments.labels import (
    MORE_SCORES,
    SCORES,
    measured,
    method_title,
    score_title,
    setting_title,
    settings_of,
)
from recollect.experiments.results import Results, Summary
from recollect.files import write_text

# The columns of a CSV around scores and hyper-parameters: fields of `Result`.
BEFORE = ("benchmark", "method", "buffer", "seed", "epochs", "validation")
AFTER = (
    "train_seconds", "steps", "memory_bytes", "diverged", "device", "execution", "precision",
    "optimiser", "stream", "network", "network_class", "code",
)  # fmt: skip


class Column(NamedTuple):
    """Table column: one score in one setting."""

    score: str
    setting: str

    @property
    def title(self) -> str:
        """Heading of the column: score and setting, or the setting alone for accuracy.

        >>> Column("accuracy", "class").title, Column("anytime_accuracy", "class").title
        ('Class-IL', 'any-time accuracy Class-IL')
        """
        word = "" if self.score == "accuracy" else f"{score_title(self.score, self.setting)} "
        return word + setting_title(self.setting)


def exported(results: Results, suffix: str, scores: Sequence[str] = ()) -> str:
    """Format the results as a table in one of the `FORMATS`.

    A CSV has one row per run, with all scores. Markdown and LaTeX have means over seeds of the
    given scores; by default the accuracy, and if a run has curves also the average incremental and
    the any-time accuracy.
    """
    return FORMATS[suffix](results, scores)


def save(results: Results, path: Path | str, scores: Sequence[str] = ()) -> None:
    """Write results to a file in the format that its suffix names; `scores` as in `exported`."""
    suffix = Path(path).suffix
    if suffix in FORMATS:
        write_text(path, exported(results, suffix, scores))
    elif suffix in (LINES, ".json", ""):
        write_runs(path, results)
    else:
        raise InputError(
            f"cannot save results as {suffix!r}: use .json or .jsonl (to load them again), or "
            f"{', '.join(FORMATS)} (tables)"
        )


def columns(results: Results) -> dict[str, list[Any]]:
    """Return the runs as named columns, with one value per run (None if it is missing).

    Scores are named by setting, as in `accuracy Class-IL`; `title` is the method's title, and each
    hyper-parameter has a column. Average incremental and any-time accuracy have columns if any of
    the runs has them.
    """
    settings = settings_of(results)
    names = sorted({name for run in results for name in run.hyperparameters})
    found = {name: [getattr(run, name) for run in results] for name in BEFORE}
    found["title"] = [method_title(run) for run in results]
    for score in (*SCORES, *measured(results, MORE_SCORES)):
        for setting in settings:
            values = [getattr(run, score).get(setting) for run in results]
            found[f"{score_title(score, setting)} {setting_title(setting)}"] = values
    for name in names:
        taken = name in (*BEFORE, *AFTER)
        values = [run.hyperparameters.get(name) for run in results]
        found[f"hyper-parameter {name}" if taken else name] = values
    return found | {name: [getattr(run, name) for run in results] for name in AFTER}


def score_columns(results: Results, scores: Sequence[str] = ("accuracy",)) -> list[Column]:
    """Return a column for each score and setting that at least one run has."""
    found = [Column(score, setting) for score in scores for setting in settings_of(results)]
    return [
        each for each in found
        if any(getattr(run, each.score).get(each.setting) is not None for run in results)
    ]  # fmt: skip


def _csv(results: Results, _: Sequence[str]) -> str:
    text, table = io.StringIO(), columns(results)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    for cells in zip(*table.values(), strict=True):
        writer.writerow(["" if c is None else int(c) if isinstance(c, bool) else c for c in cells])
    return text.getvalue()


def _markdown(results: Results, scores: Sequence[str]) -> str:
    note, head, *rows = _means(results, scores)
    lines = [head, ["---"] * len(head), *rows]
    rows_of = [[cell.replace("|", r"\|").replace("<", "&lt;") for cell in line] for line in lines]
    table = "\n".join(f"| {' | '.join(line)} |" for line in rows_of) + "\n"
    return f"{table}\n{note[0]}\n" if note else table


def _latex(results: Results, scores: Sequence[str]) -> str:
    note, head, *rows = _means(results, scores)
    lines = [r" & ".join(_escaped(cell) for cell in row) + r" \\" for row in (head, *rows)]
    numbers = (
        all(cell[:1] in "+-0123456789" for cell in column)
        for _, *column in zip(head, *rows, strict=True)
    )
    begin = r"\begin{tabular}{" + "".join("r" if each else "l" for each in numbers) + "}"
    body = [*(f"% {each}" for each in note), begin, r"\toprule", lines[0], r"\midrule", *lines[1:]]
    return "\n".join([*body, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _means(results: Results, scores: Sequence[str]) -> list[list[str]]:
    """Return a note on what all rows share (may be empty), the header, and the table rows.

    Each row is a configuration. Hyper-parameters that vary within a method have a column each, and
    so do epochs and split if they vary. Values common to all rows go into the note, the remaining
    ones into the last column.
    """
    summaries = results.summaries()
    asked = any(run.curves is not None for run in results)
    means = score_columns(results, scores or ("accuracy", *(MORE_SCORES if asked else ())))
    varying = [name for name in ("epochs", "validation")
               if len({getattr(run, name) for run in results}) > 1]  # fmt: skip
    spanned = _spanned(summaries)
    rest = [_rest(each, spanned, varying) for each in summaries]
    shared = [word for word in rest[0] if all(word in words for words in rest)] if rest else []
    others = [", ".join(word for word in words if word not in shared) for words in rest]
    same = not any(others)
    head = ["benchmark", "method", "buffer", *spanned, *varying, "seeds"]
    head += [each.title for each in means]
    rows = []
    for each, other in zip(summaries, others, strict=True):
        run = each.first
        start, (seeds, *cells) = (row := mean_cells(each, means))[:3], row[3:]
        had = run.hyperparameters
        values = [f"{had[name]:g}" if name in had else "" for name in spanned]
        more = [str(getattr(run, name)).lower() for name in varying]
        rows.append([*start, *values, *more, seeds, *cells, *([] if same else [other])])
    note = [f"All rows: {', '.join(shared)}."] if shared else []
    return [note, head + ([] if same else ["values"]), *rows]


def _spanned(summaries: Sequence[Summary]) -> list[str]:
    """Names of the hyper-parameters with several values within one method on one stream."""
    found: dict[tuple[str, str, str], set[float]] = {}
    for each in summaries:
        for name, value in each.first.hyperparameters.items():
            found.setdefault((each.first.benchmark, each.first.method, name), set()).add(value)
    return list(dict.fromkeys(name for (*_, name), values in found.items() if len(values) > 1))


def _rest(summary: Summary, spanned: Sequence[str], varying: Sequence[str]) -> list[str]:
    values = summary.first.hyperparameters.items()
    said = [f"{name} {value:g}" for name, value in values if name not in spanned]
    chosen = [word for word in summary.chosen if _column(word) not in varying]
    return [*said, *summary.choices, *chosen]


def _column(word: str) -> str:
    return "epochs" if word.startswith("epochs ") else "validation"


def mean_cells(summary: Summary, columns: Sequence[Column]) -> list[str]:
    """Return the first cells of a row: benchmark, method, buffer, seeds, and the means."""
    run, count = summary.first, len(summary.runs)
    means = (summary.mean(*c) if c.setting in summary.settings else None for c in columns)
    lost = sum(run.diverged for run in summary.runs)
    diverged = f"{lost} diverged" if lost else ""
    return [
        run.benchmark,
        method_title(run),
        "" if run.buffer is None else str(run.buffer),
        ", ".join(filter(None, (str(count), diverged))),
        *("" if mean is None else mean.beside(count) for mean in means),
    ]


LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%$#_{}"}
    | {"±": r"$\pm$", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
)


def _escaped(text: str) -> str:
    return text.translate(LATEX)


FORMATS: dict[str, Callable[[Results, Sequence[str]], str]] = {
    ".csv": _csv,
    ".md": _markdown,
    ".tex": _latex,
}
