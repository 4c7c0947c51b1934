"""A job: runs that can train as one fleet, and what comes out of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from recollect.methods import Method, Spec, hyperparameters, setup_of, symbol
from recollect.streams.joint import Joint
from recollect.streams.stream import Stream

__all__ = ["Job", "Result", "Run"]

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Run:
    """What is particular to one run of a fleet: its seed, its rate and its method."""

    seed: int
    lr: float
    method: Method


@dataclass(frozen=True)
class Job:
    """Runs of one method on one stream that share all shapes, so that they train as one fleet."""

    stream: Stream
    runs: tuple[Run, ...]
    batch: int
    replay: int
    buffer: int | None
    epochs: int
    network: Callable[[], nn.Module] | nn.Module
    validation: bool = False
    device: torch.device = CPU
    full_precision: bool = False

    @property
    def kind(self) -> type[Method]:
        """The method that all runs have in common."""
        return type(self.runs[0].method)

    @property
    def arriving(self) -> Stream:
        """The stream as the method meets it: all tasks mixed, if it needs all data at once."""
        return Joint(self.stream) if self.kind.needs.all_data else self.stream

    @property
    def steps(self) -> int:
        """How many steps each run takes, if the method does not ask for more at a task's end."""
        return sum(self.task_steps(task) for task in range(self.arriving.tasks))

    def task_steps(self, task: int) -> int:
        """How many steps each run takes in a task, rehearsed examples aside."""
        parts = self.arriving.parts(task)
        return self.epochs * sum(math.ceil(n / self.batch) for n in parts)

    @property
    def spec(self) -> Spec:
        """What the method is told of the fleet before its networks are made."""
        stream, tasks = self.arriving, range(self.arriving.tasks)
        per_task = max(len(stream.task_classes(task)) for task in tasks)
        return Spec(
            len(self.runs), self.buffer or 0, stream.classes, len(tasks), per_task, stream.shape
        )

    @property
    def total_steps(self) -> int:
        """How many steps all runs take together."""
        return self.steps * len(self.runs)

    @property
    def work(self) -> int:
        """How many examples pass through the networks: what the job costs, roughly."""
        return self.total_steps * self.rows

    @property
    def rows(self) -> int:
        """How many examples of a run pass through its network in a step."""
        replay = setup_of(self.runs[0].method, self.spec).replay
        return self.batch + self.replay * (replay.draws if replay else 0)

    def hyperparameters(self, run: int) -> dict[str, float]:
        """The values of one run, by the paper's symbols."""
        config = self.runs[run]
        own = {
            symbol(name): float(getattr(config.method, name)) for name in hyperparameters(self.kind)
        }
        sizes = {"bs": self.batch, **({"mbs": self.replay} if self.kind.replay else {})}
        return {"lr": config.lr, **own, **sizes}

    def split(self, runs: int) -> list[Job]:
        """The same work as smaller fleets of at most so many runs, as even as can be."""
        pieces = math.ceil(len(self.runs) / runs)
        size, extra = divmod(len(self.runs), pieces)
        bounds = [piece * size + min(piece, extra) for piece in range(pieces + 1)]
        return [replace(self, runs=self.runs[a:b]) for a, b in pairwise(bounds)]


@dataclass(frozen=True)
class Result:
    """What one run was, and how it went; percentages per setting.

    `train_seconds` is the fleet's training time divided by its runs: what this run cost.
    """

    benchmark: str
    method: str
    buffer: int | None
    seed: int
    hyperparameters: Mapping[str, float]
    accuracy: Mapping[str, float]
    fwt: Mapping[str, float | None]
    bwt: Mapping[str, float | None]
    forgetting: Mapping[str, float | None]
    epochs: int
    validation: bool
    matrix: Mapping[str, Sequence[Sequence[float | None]]]
    untrained: Mapping[str, Sequence[float]] | None
    train_seconds: float
    steps: int
    memory_bytes: int
    diverged: bool
    device: str
    execution: str

    def as_json(self) -> dict[str, Any]:
        """The result as plain data."""
        return asdict(self)
