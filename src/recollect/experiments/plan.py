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

__all__ = ["Network", "Plan", "plan"]

CPU = torch.device("cpu")
Network = Callable[[], nn.Module] | nn.Module


@dataclass(frozen=True)
class Plan:
    """What to train, checked and complete, before any data are loaded."""

    fleets: tuple[tuple[int, int, tuple[Run, ...]], ...]
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
    axes = axes_of(kind, benchmark, size, values or {})
    batches, replays = axes.pop("bs"), axes.pop("mbs", [0.0])
    shapes = [[int(value) for value in axes.pop(name)] for name in static(kind)]
    points = [dict(zip(axes, point, strict=True)) for point in product(*axes.values())]
    fleets = tuple(
        (
            int(batch),
            int(replay or batch) if kind.replay else 0,
            _runs(kind, points, numbers, dict(zip(static(kind), shape, strict=True))),
        )
        for batch, replay, shape in product(batches, replays, product(*shapes))
    )
    network = benchmark.network if benchmark else "mlp"
    return Plan(fleets, size, checked_epochs(epochs, benchmark), validation, network)


def _runs(
    kind: type[Method],
    points: Sequence[Mapping[str, float]],
    seeds: Sequence[int],
    shape: Mapping[str, int],
) -> tuple[Run, ...]:
    """Every point of the grid with every seed, in one shape."""
    return tuple(
        Run(seed, point["lr"], kind(**{n: point[n] for n in varying(kind)}, **shape))
        for point in points
        for seed in seeds
    )


_NETWORKS: dict[str, Callable[[Stream], Network]] = {
    "mlp": lambda stream: partial(MLP, math.prod(stream.shape), stream.classes),
    "resnet18": lambda stream: partial(ResNet18, stream.classes),
}
