"""Made-up results that tests share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from recollect.methods import METHODS, hyperparameters
from recollect.train import Result
from recollect.train.curves import Curves
from recollect.train.provenance import Provenance

PLAIN = Result(
    benchmark="seq-mnist",
    method="derpp",
    buffer=200,
    seed=0,
    hyperparameters={"lr": 0.03, "alpha": 0.2, "beta": 1.0, "bs": 10, "mbs": 10},
    accuracy={"class": 80.0, "task": 99.0},
    fwt={"class": None, "task": None},
    bwt={"class": None, "task": None},
    forgetting={"class": None, "task": None},
    epochs=1,
    validation=False,
    matrix={
        "class": [[90.0, 0.0, None], [60.0, 80.0, 0.0], [30.0, 40.0, 70.0]],
        "task": [[99.0, 50.0, None], [98.0, 99.0, 50.0], [97.0, 98.0, 99.0]],
    },
    untrained=None,
    train_seconds=2.0,
    steps=6002,
    memory_bytes=166_400,
    diverged=False,
    device="CPU",
    execution="broadcast, eager",
)


def made_by(provenance: Provenance, runs: Iterable[Result]) -> list[Result]:
    """Runs with this provenance."""
    return [replace(run, provenance=provenance) for run in runs]


def with_provenance(runs: Iterable[Result]) -> list[tuple[Result, Provenance]]:
    """Runs beside their provenance, which `==` of runs leaves out."""
    return [(run, run.provenance) for run in runs]


def some(method: str, buffer: int | None, accuracies: list[float], **other: Any) -> list[Result]:
    """Runs that differ in their seed, with these accuracies in Class-IL."""
    values = hyperparameters(METHODS[method])
    return [
        replace(
            PLAIN, method=method, buffer=buffer, seed=seed,
            accuracy={"class": value, "task": 99.0},
            hyperparameters={"lr": 0.03, **dict.fromkeys(values, 0.5)}, **other,
        )
        for seed, value in enumerate(accuracies)
    ]  # fmt: skip


def with_curves(run: Result, change: float = 0.0, every: int = 10) -> Result:
    """The run with curves over 40 steps, of two tasks, and confusion matrices of two classes."""
    steps = list(range(every, 41, every))
    tasks = [0 if step <= 20 else 1 for step in steps]
    rows = [[90.0 + change] if task == 0 else [60.0 + change, 80.0] for task in tasks]
    curves = Curves(every, 100, steps, tasks, [2.0 - step / 40 for step in steps],
                    {"class": rows, "task": [[99.0] * len(row) for row in rows]})  # fmt: skip
    counts = {"class": [[3, 1], [2, 2]], "task": [[4, 0], [0, 4]]}
    return replace(run, curves=curves, confusion=counts)


def in_every_figure() -> list[Result]:
    """A few runs that every figure finds something in."""
    runs = []
    for method, buffers in (
        ("sgd", [None]), ("joint", [None]), ("er", [10, 20, 200, 500]), ("er-ring", [10, 20]),
        ("derpp", [10, 20, 200, 500]), ("mer", [200]),
    ):  # fmt: skip
        for buffer in buffers:
            mean = 50.0 + (buffer or 0) / 20
            runs += some(method, buffer, [mean - 2, mean + 2], memory_bytes=(buffer or 0) * 800)
    return [with_curves(run) if run.method in ("sgd", "derpp") else run for run in runs]
