"""Modules that compute differently in every task."""

from __future__ import annotations

from torch import nn

__all__ = ["ByTask"]


class ByTask(nn.Module):
    """A module whose computation depends on the number of the task, from 0."""

    task = 0

    def begin(self, task: int, *, training: bool = True) -> None:
        """Compute as for this task from now on, in training or evaluation mode."""
        self.task = task
        self.train(training)
