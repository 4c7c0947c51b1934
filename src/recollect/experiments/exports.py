"""Results as tables for other programs and for papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from recollect.experiments.labels import SCORES, SETTINGS
from recollect.experiments.results import Results
from recollect.methods import title_of

__all__ = ["FORMATS", "exported"]

# The columns of a CSV around scores and hyper-parameters: fields of `Result`.
BEFORE = ("benchmark", "method", "buffer", "seed", "epochs", "validation")
AFTER = (
    "train_seconds", "steps", "memory_bytes", "diverged", "device", "execution", "precision",
    "optimiser", "stream", "network", "code",
)  # fmt: skip


def exported(results: Results, suffix: str) -> str:
    """The results as text in one of the `FORMATS`.

    A CSV has a line for every run; Markdown and LaTeX have means over seeds.
    """
    return FORMATS[suffix](results)


def _csv(results: Results) -> str:
    text = io.StringIO()
    columns = [f"{score}_{setting}" for score in SCORES for setting in _settings(results)]
    names = sorted({name for run in results for name in run.hyperparameters})
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*BEFORE, *columns, *names, *AFTER])
    for run in results:
        scores = {
            f"{score}_{setting}": value
            for score in SCORES
            for setting, value in getattr(run, score).items()
        }
        cells = [
            *(getattr(run, name) for name in BEFORE),
            *(scores.get(column) for column in columns),
            *(run.hyperparameters.get(name) for name in names),
            *(getattr(run, name) for name in AFTER),
        ]
        writer.writerow(["" if c is None else int(c) if isinstance(c, bool) else c for c in cells])
    return text.getvalue()


def _markdown(results: Results) -> str:
    head, *rows = _means(results)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _latex(results: Results) -> str:
    head, *rows = _means(results)
    lines = [r" & ".join(_escaped(cell) for cell in row) + r" \\" for row in (head, *rows)]
    body = [
        r"\begin{tabular}{ll" + "r" * (len(head) - 3) + "l}",
        r"\toprule",
        lines[0],
        r"\midrule",
    ]
    return "\n".join([*body, *lines[1:], r"\bottomrule", r"\end{tabular}"]) + "\n"


def _means(results: Results) -> Sequence[list[str]]:
    """A head and a row for every configuration, with a column for every setting there is.

    Columns at the end say what tells rows apart: epochs and split where they are not all the same,
    and the hyper-parameters.
    """
    summaries = results.summaries()
    settings = _settings(results)
    varying = [name for name in ("epochs", "validation")
               if len({getattr(run, name) for run in results}) > 1]  # fmt: skip
    rows = [["benchmark", "method", "buffer", "seeds", *settings, *varying, "values"]]
    for summary in summaries:
        run = summary.first
        means = (summary.mean("accuracy", setting) for setting in settings)
        rows.append([
            run.benchmark,
            title_of(run.method),
            "" if run.buffer is None else str(run.buffer),
            str(len(summary.runs)),
            *("" if mean is None else str(mean) for mean in means),
            *(str(getattr(run, name)).lower() for name in varying),
            summary.values,
        ])  # fmt: skip
    return rows


def _settings(results: Results) -> list[str]:
    """The settings of some results, those that are known in their usual order."""
    found = dict.fromkeys(setting for run in results for setting in run.accuracy)
    return sorted(found, key=lambda name: [*SETTINGS, *found].index(name))


def _escaped(text: str) -> str:
    for character in "&%$#_{}":
        text = text.replace(character, f"\\{character}")
    return text.replace("±", r"$\pm$")


FORMATS: dict[str, Callable[[Results], str]] = {".csv": _csv, ".md": _markdown, ".tex": _latex}
