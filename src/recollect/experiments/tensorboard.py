"""Log results to TensorBoard: accuracies over tasks, curves, confusion matrices, final scores."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from recollect.experiments.labels import MORE_SCORES, SCORES, score_title, setting_title
from recollect.extras import needs
from recollect.train import Result

LETTERS = 6
PIXELS = 8  # side of a confusion matrix cell


def log_results(results: Iterable[Result], folder: Path | str) -> None:
    """Write each run to a TensorBoard folder, named after its configuration.

    The global step of an accuracy is the number of tasks learned so far, or the last task for a
    stream without boundaries; for curves (`curve ...`) it is the number of training steps. A
    confusion matrix is an image in which lighter cells have a larger fraction of their row; the
    step of a class accuracy is the class. Tags use the titles of settings and scores, such as
    `Class-IL/task 1` and `final any-time accuracy/Class-IL`.
    """
    kind = summary_writer()
    for run in results:
        with kind(str(Path(folder) / folder_of(run))) as writer:
            for name, rows in run.matrix.items():
                setting = setting_title(name)
                for learned, row in enumerate(rows, 1):
                    known = [value for value in row[:learned] if value is not None]
                    for task, value in enumerate(row, 1):
                        if value is not None:
                            writer.add_scalar(f"{setting}/task {task}", value, learned)
                    if known:
                        mean = sum(known) / len(known)
                        writer.add_scalar(f"{setting}/mean of tasks so far", mean, learned)
            _add_details(writer, run)
            for score in SCORES | MORE_SCORES:
                for name, value in getattr(run, score).items():
                    if value is not None:
                        title = f"final {score_title(score, name)}".replace("final final", "final")
                        tag = f"{title}/{setting_title(name)}"
                        writer.add_scalar(tag, value, run.steps)


def _add_details(writer: Any, run: Result) -> None:
    if run.curves is not None:
        for step, loss in zip(run.curves.steps, run.curves.loss, strict=True):
            if loss is not None:
                writer.add_scalar("curve loss", loss, step)
        for name, rows in run.curves.accuracy.items():
            setting, means = setting_title(name), run.curves.mean(name)
            for step, row, mean in zip(run.curves.steps, rows, means, strict=True):
                writer.add_scalar(f"curve {setting}/mean of tasks so far", mean, step)
                for task, value in enumerate(row, 1):
                    writer.add_scalar(f"curve {setting}/task {task}", value, step)
    for name, counts in (run.confusion or {}).items():
        setting = setting_title(name)
        table = torch.tensor(counts, dtype=torch.float32)
        shares = table / table.sum(1, keepdim=True).clamp(min=1)
        large = shares.repeat_interleave(PIXELS, 0).repeat_interleave(PIXELS, 1)
        writer.add_image(f"confusion/{setting}", large, run.steps, dataformats="HW")
        for label, percent in enumerate(run.class_accuracy[name]):
            if percent is not None:
                writer.add_scalar(f"class accuracy/{setting}", percent, label)


def folder_of(run: Result) -> str:
    """Return the folder name of a run."""
    values = "-".join(f"{name}{value:g}" for name, value in run.hyperparameters.items())
    split = "-validation" if run.validation else ""
    buffer = f"-{run.buffer}" if run.buffer else ""
    # The key distinguishes runs that differ in network, data or code, which have no names.
    key = run.identity.key_without("seed")[:LETTERS]
    return f"{run.benchmark}/{run.method}{buffer}{split}/{values}-{key}/seed{run.seed}"


def summary_writer() -> Any:
    """Import TensorBoard's writer class, or raise an error that names the missing package."""
    with needs("tensorboard", extra="tensorboard", what="--tensorboard"):
        from torch.utils.tensorboard import SummaryWriter
    return SummaryWriter
