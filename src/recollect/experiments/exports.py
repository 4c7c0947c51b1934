"""Results as tables for other programs and for papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

from recollect.experiments.labels import SCORES, SETTINGS
from recollect.experiments.results import Results
from recollect.methods import title_of

__all__ = ["FORMATS", "exported"]


def exported(results: Results, suffix: str) -> str:
    """The results as text in one of the `FORMATS`.

    A CSV has a line for every run; Markdown and LaTeX have means over seeds.
    """
    return FORMATS[suffix](results)


def _csv(results: Results) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = [f"{score}_{setting}" for score in SCORES for setting in SETTINGS]
    names = sorted({name for run in results for name in run.hyperparameters})
    writer.writerow(["benchmark", "method", "buffer", "seed", "epochs", "validation", *columns,
                     *names, "train_seconds", "steps", "memory_bytes", "device"])  # fmt: skip
    for run in results:
        found = {
            f"{score}_{setting}": value
            for score in SCORES
            for setting, value in getattr(run, score).items()
        }
        writer.writerow([
            run.benchmark, run.method, _blank(run.buffer), run.seed, run.epochs,
            int(run.validation), *(_blank(found.get(column)) for column in columns),
            *(_blank(run.hyperparameters.get(name)) for name in names), run.train_seconds,
            run.steps, run.memory_bytes, run.device,
        ])  # fmt: skip
    return text.getvalue()


def _markdown(results: Results) -> str:
    head, *rows = _means(results)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _latex(results: Results) -> str:
    head, *rows = _means(results)
    lines = [r" & ".join(_escaped(cell) for cell in row) + r" \\" for row in (head, *rows)]
    body = [r"\begin{tabular}{ll" + "r" * (len(head) - 2) + "}", r"\toprule", lines[0], r"\midrule"]
    return "\n".join([*body, *lines[1:], r"\bottomrule", r"\end{tabular}"]) + "\n"


def _means(results: Results) -> Sequence[list[str]]:
    """A head and a row for every configuration, with a column for every setting there is."""
    summaries = results.summaries()
    settings = [s for s in SETTINGS if any(s in each.first.accuracy for each in summaries)]
    rows = [["benchmark", "method", "buffer", "seeds", *settings]]
    for summary in summaries:
        run = summary.first
        means = (summary.mean("accuracy", setting) for setting in settings)
        rows.append([
            run.benchmark,
            title_of(run.method),
            str(_blank(run.buffer)),
            str(len(summary.runs)),
            *("" if mean is None else str(mean) for mean in means),
        ])  # fmt: skip
    return rows


def _blank(value: object) -> object:
    return "" if value is None else value


def _escaped(text: str) -> str:
    for character in "&%$#_{}":
        text = text.replace(character, f"\\{character}")
    return text.replace("±", r"$\pm$")


FORMATS: dict[str, Callable[[Results], str]] = {".csv": _csv, ".md": _markdown, ".tex": _latex}
