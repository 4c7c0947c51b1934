"""Export the metrics of a learner in Prometheus' text format."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from recollect.errors import InputError
from recollect.learner.learner import Learner
from recollect.learner.saving.versions import SUFFIX

MOST_CLASSES = 100
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

# By the name of a series: the field of `Metrics`, and the help text.
MEASURES = {
    "accuracy": ("accuracy", "Accuracy of predictions before learning"),
    "recent_accuracy": ("recent", "Accuracy over the last examples"),
    "balanced_accuracy": ("balanced", "Mean accuracy of the classes"),
    "macro_f1": ("macro_f1", "Mean F1 of the classes"),
    "kappa": ("kappa", "Cohen's kappa of labels and predictions"),
    "mae": ("mae", "Mean absolute error of predictions before learning"),
    "rmse": ("rmse", "Root mean squared error of predictions before learning"),
    "r2": ("r2", "Coefficient of determination of predictions before learning"),
    "recent_rmse": ("recent_rmse", "RMSE over the last examples"),
    "f1": ("f1", "F1 of labels predicted before learning"),
    "recent_f1": ("recent_f1", "F1 over the last examples"),
    "hamming_loss": ("hamming", "Hamming loss of labels predicted before learning"),
}


class _Series(NamedTuple):
    name: str
    kind: str
    what: str
    values: list[tuple[str, float | None]]  # formatted labels, and the value


def prometheus(
    learner: Learner, *, gauges: Mapping[str, float] | None = None, classes: int = MOST_CLASSES
) -> str:
    """Return counters and gauges of a learner in Prometheus' text format, for `GET /metrics`.

    Metrics without a value yet are left out. To bound the number of series, only the first
    `classes` classes have their own; `recollect_classes` is the number of all known classes.
    `gauges` are additional values of your service by name, such as the number of pending labels.

    >>> from recollect import ER, MLP
    >>> learner = Learner(MLP(2, 1), ER())
    >>> _ = learner.observe([[1.0, 0.0], [0.0, 1.0]], ["a", "b"])
    >>> print(prometheus(learner, gauges={"pending": 3}).splitlines()[2])
    recollect_examples_total 2
    """
    for name in gauges or {}:
        if not NAME.fullmatch(name):
            raise InputError(
                f"{name!r} is not a valid name for a gauge: use letters, digits and _, and do not "
                f"begin with a digit"
            )
    found = [*_of_learner(learner, classes), *_of_checkpoints(learner)]
    taken = {series.name for series in found}
    for name, value in (gauges or {}).items():
        if name in taken:
            raise InputError(f"the series recollect_{name} already exists: give another name")
        try:
            number = value if type(value) is int else float(value)  # also numpy's and torch's
        except (TypeError, ValueError):
            raise InputError(f"the gauge {name!r} must be a number, not {value!r:.60}") from None
        found.append(_Series(name, "gauge", f"{name}, set by the service", [("", number)]))
    return "".join(line for series in found for line in _lines(series))


def _of_learner(learner: Learner, classes: int) -> Iterator[_Series]:
    metrics = learner.metrics()
    counters = {
        "examples_total": ("Learned examples", metrics.seen),
        "left_out_total": ("Examples left out as outliers", metrics.left_out),
        "steps_total": ("Training steps", learner.steps),
        "drift_alarms_total": ("Drift alarms", metrics.alarms),
    }
    measures = {name: (what, getattr(metrics, field)) for name, (field, what) in MEASURES.items()}
    shares = {
        **measures,
        "classes": ("Known classes", len(learner.classes)),
        "memory_bytes": ("Bytes of memory and state, without the network", learner.memory_bytes),
        "learning_rate": ("Learning rate, before any schedule", learner.lr),
        "last_drift_alarm_example": (
            "Index of the example of the last drift alarm, from 0",
            learner.alarms[-1].number if learner.alarms else None,
        ),
    }
    for kind, all_of in (("counter", counters), ("gauge", shares)):
        for name, (what, value) in all_of.items():
            yield _Series(name, kind, what, [("", value)])
    recent = list(metrics.recent_per_class.items())[:classes]
    values = [(f'{{class="{_escaped(label)}"}}', share) for label, share in _distinct(recent)]
    yield _Series("class_recent_accuracy", "gauge", "Recent accuracy of a class", values)


def _of_checkpoints(learner: Learner) -> Iterator[_Series]:
    folder = learner.checkpoint_folder
    if folder is None:
        return
    times = [found for path in folder.glob(f"*{SUFFIX}") if (found := _changed(path)) is not None]
    age = max(0.0, time.time() - max(times)) if times else None
    yield _Series(
        "checkpoint_age_seconds", "gauge", "Seconds since the last checkpoint", [("", age)]
    )
    saved: list[tuple[str, float | None]] = [("", learner.saved)]
    yield _Series("saved_examples", "gauge", "Learned examples that are saved on disk", saved)


def _changed(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # removed in the meantime, after a newer one was written
        return None


def _distinct(pairs: list[tuple[object, float | None]]) -> Iterator[tuple[str, float | None]]:
    """Format labels as text; use `repr` where two would be equal, such as 1 and "1"."""
    texts = [str(label) for label, _ in pairs]
    for text, (label, share) in zip(texts, pairs, strict=True):
        yield (f"{label!r}" if texts.count(text) > 1 else text), share


def _escaped(text: str) -> str:
    r"""Escape a label value for the text format.

    >>> print(_escaped('a "b"\n'))
    a \"b\"\n
    """
    text = text.encode("utf-8", "backslashreplace").decode()  # UTF-8 has no lone surrogates
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _lines(series: _Series) -> Iterator[str]:
    values = [(labels, value) for labels, value in series.values if value is not None]
    if values:
        name = f"recollect_{series.name}"
        yield f"# HELP {name} {series.what}\n# TYPE {name} {series.kind}\n"
        yield from (f"{name}{labels} {_number(value)}\n" for labels, value in values)


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else f"{value!r}"
