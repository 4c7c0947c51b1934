"""From what a person asks for to the jobs that do it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import product

from torch import nn

from recollect.experiments.values import (
    Values,
    axes_of,
    checked_buffer,
    checked_epochs,
    checked_seeds,
)
from recollect.methods import Method
from recollect.nets import MLP
from recollect.streams import Benchmark, Stream
from recollect.train import Job, Run

__all__ = ["Network", "Plan", "plan"]

Network = Callable[[], nn.Module] | nn.Module


@dataclass(frozen=True)
class Plan:
    """What to train, checked and complete, before any data are loaded."""

    fleets: tuple[tuple[int, int, tuple[Run, ...]], ...]
    buffer: int | None
    epochs: int
    validation: bool

    def jobs(self, stream: Stream, network: Network | None = None) -> list[Job]:
        """The jobs that carry the plan out on a stream; the network is the paper's by default."""
        return [
            Job(
                stream=stream,
                runs=runs,
                batch=batch,
                replay=replay,
                buffer=self.buffer,
                epochs=self.epochs,
                network=network or partial(MLP, math.prod(stream.shape), stream.classes),
                validation=self.validation,
            )
            for batch, replay, runs in self.fleets
        ]


def plan(
    kind: type[Method],
    *,
    seeds: Iterable[int],
    benchmark: Benchmark | None = None,
    buffer: int | None = None,
    values: Values | None = None,
    epochs: int | None = None,
    validation: bool = False,
) -> Plan:
    """The plan for a method with one buffer: every seed with every combination of the values.

    Values that are not given are the paper's for that benchmark and buffer. Rates and weights
    vary within a fleet; batch sizes change its shapes, so each has a fleet of its own.
    """
    numbers = checked_seeds(seeds)
    size = checked_buffer(kind, buffer)
    axes = axes_of(kind, benchmark, size, values or {})
    batches, replays = axes.pop("bs"), axes.pop("mbs", [0.0])
    points = [dict(zip(axes, point, strict=True)) for point in product(*axes.values())]
    runs = tuple(
        Run(seed, point["lr"], kind(**{name: point[name] for name in kind.hyperparameters()}))
        for point in points
        for seed in numbers
    )
    fleets = tuple(
        (int(batch), int(replay or batch) if kind.uses_memory() else 0, runs)
        for batch, replay in product(batches, replays)
    )
    return Plan(fleets, size, checked_epochs(epochs, benchmark), validation)
