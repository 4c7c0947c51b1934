"""From what a person asks for to the jobs that do it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

import torch
from torch import nn

from recollect.experiments.values import (
    Values,
    axes_of,
    checked_buffer,
    checked_epochs,
    checked_seeds,
)
from recollect.methods import Method, static, varying
from recollect.nets import MLP, ResNet18
from recollect.streams import Benchmark, Stream
from recollect.train import Job, Run

__all__ = ["Network", "Plan", "fleets_of", "plan", "points_of"]

CPU = torch.device("cpu")
Network = Callable[[], nn.Module] | nn.Module
Shaped = tuple[int, int, tuple[Run, ...]]  # batch size, replay size, runs


@dataclass(frozen=True)
class Plan:
    """What to train, checked and complete, before any data are loaded."""

    fleets: tuple[Shaped, ...]
    buffer: int | None
    epochs: int
    validation: bool
    default_network: str = "mlp"

    def jobs(
        self,
        stream: Stream,
        network: Network | None = None,
        device: torch.device = CPU,
        full_precision: bool = False,
    ) -> list[Job]:
        """The jobs that carry the plan out on a stream; the network is the paper's by default."""
        return [
            Job(
                stream=stream,
                runs=runs,
                batch=batch,
                replay=replay,
                buffer=self.buffer,
                epochs=self.epochs,
                network=network or _NETWORKS[self.default_network](stream),
                validation=self.validation,
                device=device,
                full_precision=full_precision,
            )
            for batch, replay, runs in self.fleets
        ]


def plan(
    kind: type[Method],
    *,
    seeds: int | Iterable[int],
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
    points = points_of(axes_of(kind, benchmark, size, values or {}))
    network = benchmark.network if benchmark else "mlp"
    count = checked_epochs(epochs, benchmark)
    return Plan(fleets_of(kind, points, numbers), size, count, validation, network)


def points_of(axes: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """Every combination of some values.

    >>> points_of({"lr": [0.1, 0.2], "alpha": [1.0]})
    [{'lr': 0.1, 'alpha': 1.0}, {'lr': 0.2, 'alpha': 1.0}]
    """
    return [dict(zip(axes, point, strict=True)) for point in product(*axes.values())]


def fleets_of(
    kind: type[Method], points: Iterable[Mapping[str, float]], seeds: Sequence[int]
) -> tuple[Shaped, ...]:
    """Every point with every seed, in as few fleets as their shapes allow."""
    fleets: dict[tuple[int, ...], list[Run]] = {}
    for point in points:
        batch = int(point["bs"])
        replay = int(point.get("mbs", batch)) if kind.replay else 0
        shape = {name: int(point[name]) for name in static(kind)}
        method = kind(**{name: point[name] for name in varying(kind)}, **shape)
        runs = [Run(seed, point["lr"], method) for seed in seeds]
        fleets.setdefault((batch, replay, *shape.values()), []).extend(runs)
    return tuple((batch, replay, tuple(runs)) for (batch, replay, *_), runs in fleets.items())


_NETWORKS: dict[str, Callable[[Stream], Network]] = {
    "mlp": lambda stream: partial(MLP, math.prod(stream.shape), stream.classes),
    "resnet18": lambda stream: partial(ResNet18, stream.classes),
}
