"""The accuracy of a fleet on the tasks of a stream."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from recollect.streams.stream import Stream
from recollect.train.fleet import Fleet

__all__ = ["accuracy", "settings"]

ROWS = 1000


def settings(stream: Stream) -> tuple[str, ...]:
    """The settings that a run on this stream is scored in."""
    return ("class", "task") if stream.setting == "class" else (stream.setting,)


def accuracy(fleet: Fleet, stream: Stream, tasks: Iterable[int]) -> dict[str, Tensor]:
    """The percentage of right answers of every run on every task, `[K, tasks]`, per setting.

    Class-IL chooses among all classes, Task-IL among those of the task: the same logits serve
    both.
    """
    columns = [_right(fleet, stream, task) for task in tasks]
    return {name: torch.stack([c[name] for c in columns], 1) for name in settings(stream)}


def _right(fleet: Fleet, stream: Stream, task: int) -> dict[str, Tensor]:
    x, y = stream.test(fleet.seeds, task)
    names = settings(stream)
    count = y.shape[1]
    right = {name: torch.zeros_like(fleet.seeds) for name in names}
    outside = torch.ones(stream.classes, dtype=torch.bool, device=fleet.device)
    outside[list(stream.task_classes(task))] = False
    for start in range(0, count, ROWS):
        logits = fleet.scores(x[:, start : start + ROWS])
        labels = y[:, start : start + ROWS]
        right[names[0]] += (logits.argmax(2) == labels).sum(1)
        if "task" in right:
            chosen = logits.masked_fill(outside, -torch.inf).argmax(2)
            right["task"] += (chosen == labels).sum(1)
    return {name: hits.cpu().double() * 100 / count for name, hits in right.items()}
