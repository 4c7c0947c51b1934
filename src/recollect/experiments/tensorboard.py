"""Results for TensorBoard: accuracies over tasks, and final scores with hyper-parameters."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recollect.experiments.labels import SCORES
from recollect.extras import needs
from recollect.train import Result

__all__ = ["check_tensorboard", "folder_of", "log_results"]

LETTERS = 6


def check_tensorboard() -> None:
    """Say what is missing before any work is done."""
    _writer()


def log_results(results: Iterable[Result], folder: Path | str) -> None:
    """Write a folder for every run, named by what it was.

    The step of an accuracy is the number of tasks that were learned. Where there is one row of
    accuracies only (a stream without boundaries), it is the last.
    """
    kind = _writer()
    for run in results:
        with kind(str(Path(folder) / folder_of(run))) as writer:
            for setting, rows in run.matrix.items():
                for learned, row in enumerate(rows, 1):
                    known = [value for value in row[:learned] if value is not None]
                    for task, value in enumerate(row, 1):
                        if value is not None:
                            writer.add_scalar(f"{setting}/task {task}", value, learned)
                    if known:
                        mean = sum(known) / len(known)
                        writer.add_scalar(f"{setting}/mean of tasks so far", mean, learned)
            for score in SCORES:
                for setting, value in getattr(run, score).items():
                    if value is not None:
                        writer.add_scalar(f"final {score}/{setting}", value, run.steps)


def folder_of(run: Result) -> str:
    """The folder of a run, named by what it was."""
    values = "-".join(f"{name}{value:g}" for name, value in run.hyperparameters.items())
    split = "-validation" if run.validation else ""
    buffer = f"-{run.buffer}" if run.buffer else ""
    # The key keeps runs apart that differ in what has no name: network, data, code.
    key = run.identity.key_without("seed")[:LETTERS]
    return f"{run.benchmark}/{run.method}{buffer}{split}/{values}-{key}/seed{run.seed}"


def _writer() -> Any:
    with needs("tensorboard", extra="tensorboard", what="--tensorboard"):
        from torch.utils.tensorboard import SummaryWriter
    return SummaryWriter
