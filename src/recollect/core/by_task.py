"""Modules whose computation depends on the current task."""

from __future__ import annotations

from torch import nn


class ByTask(nn.Module):
    """A module whose computation depends on the task index, which starts at 0."""

    task = 0

    def begin(self, task: int, *, training: bool = True) -> None:
        """Switch to a task, in training or evaluation mode."""
        self.task = task
        self.train(training)
