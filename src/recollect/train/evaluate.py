"""The accuracy of a fleet on the tasks of a stream."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from recollect.methods import Method
from recollect.streams.stream import Stream
from recollect.train.fleet import Fleet

__all__ = ["accuracy", "settings"]

ROWS = 1000


def settings(stream: Stream, kind: type[Method] = Method) -> tuple[str, ...]:
    """The settings that a run of a method on this stream is scored in."""
    if kind.needs.task_id:
        return ("task",)
    return ("class", "task") if stream.setting == "class" else (stream.setting,)


def accuracy(fleet: Fleet, stream: Stream, tasks: Iterable[int]) -> dict[str, Tensor]:
    """The percentage of right answers of every run on every task, `[K, tasks]`, per setting.

    Class-IL chooses among all classes, Task-IL among those of the task: the same scores serve
    both.
    """
    names = settings(stream, fleet.kind)
    columns = [_right(fleet, stream, task) for task in tasks]
    return {name: torch.stack([c[name] for c in columns], 1) for name in names}


def _right(fleet: Fleet, stream: Stream, task: int) -> dict[str, Tensor]:
    x, y = stream.test(fleet.seeds, task)
    names = settings(stream, fleet.kind)
    count = y.shape[1]
    right = {name: torch.zeros_like(fleet.seeds) for name in names}
    outside = torch.ones(stream.classes, dtype=torch.bool, device=fleet.device)
    outside[list(stream.task_classes(task))] = False
    for start in range(0, count, ROWS):
        scores = fleet.predict(x[:, start : start + ROWS], task)
        labels = y[:, start : start + ROWS]
        for name in names:
            among = scores.masked_fill(outside, -torch.inf) if name == "task" else scores
            right[name] += (among.argmax(2) == labels).sum(1)
    return {name: hits.cpu().double() * 100 / count for name, hits in right.items()}
