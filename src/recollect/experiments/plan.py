"""Turn a method, a benchmark and hyper-parameter values into training jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch

from recollect.experiments.networks import DEFAULT, LINEAR, Network, NetworkChoice
from recollect.experiments.settings import check_settings, without_defaults, without_schedule
from recollect.experiments.values import (
    Values,
    axes_of,
    check_names,
    checked_buffer,
    checked_epochs,
    checked_seeds,
)  # fmt: skip
from recollect.methods import ClosedForm, Method, hyperparameters, static, varying
from recollect.streams import Benchmark, Stream
from recollect.train import Job, Run
from recollect.train.optimisation import PLAIN_SGD, Optimisation

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Plan:
    """Validated description of what to train, made before any data are loaded."""

    fleets: tuple[tuple[int, int, tuple[Run, ...]], ...]  # batch size, replay size, runs
    buffer: int | None
    epochs: int
    validation: bool
    network: NetworkChoice
    optimisation: Optimisation = PLAIN_SGD

    def jobs(
        self,
        stream: Stream,
        network: Network | None = None,
        device: torch.device = CPU,
        half: bool = False,
    ) -> list[Job]:
        """Build the jobs for a stream; the default network is the paper's."""
        return [
            Job(
                stream=stream,
                runs=runs,
                batch=batch,
                replay=replay,
                buffer=self.buffer,
                epochs=self.epochs,
                network=network or self.network.build(stream),
                validation=self.validation,
                device=device,
                half=half,
                optimisation=self.optimisation,
            )
            for batch, replay, runs in self.fleets
        ]


def plan(
    kind: type[Method],
    *,
    seeds: int | Iterable[int],
    benchmark: Benchmark | None = None,
    buffer: int | None = None,
    values: Values | Sequence[Values] = (),
    epochs: int | None = None,
    validation: bool = False,
    optimisation: Optimisation = PLAIN_SGD,
    network: NetworkChoice = DEFAULT,
) -> Plan:
    """Plan the runs of a method with one buffer: every seed with every combination of values.

    Values that are not given default to the paper's for that benchmark and buffer. `values` may
    also be several mappings, such as the points of a search. Learning rates and weights vary
    within a fleet; each batch size needs a fleet of its own, as it changes tensor shapes.
    """
    numbers, own = checked_seeds(seeds), hyperparameters(kind)
    given = [values] if isinstance(values, Mapping) else values or [{}]
    for point in given:  # first: a misspelt name may be that of the buffer
        check_names(kind, point, optimisation)
    size = checked_buffer(kind, buffer)
    every = [axes_of(kind, benchmark, size, some, optimisation) for some in given]
    if isinstance(values, Mapping):  # the points of a search have the same settings
        every = [without_defaults(axes, optimisation, own) for axes in every]
    points = [point for axes in every for point in points_of(axes)]
    fleets: dict[tuple[int, ...], list[Run]] = {}
    for point in points:
        batch = int(point["bs"])
        replay = int(point.get("mbs", batch)) if kind.replay else 0
        shape = {name: int(point[name]) for name in static(kind)}
        method = kind(**{name: point[name] for name in varying(kind)}, **shape)
        moving = {n: point[n] for n in optimisation.numbers if n in point and n not in own}
        optimisation.check(moving)
        check_settings(moving)
        runs = [Run(seed, point["lr"], method, moving) for seed in numbers]
        fleets.setdefault((batch, replay, *shape.values()), []).extend(runs)
    return Plan(
        tuple((batch, replay, tuple(runs)) for (batch, replay, *_), runs in fleets.items()),
        size,
        checked_epochs(epochs, benchmark),
        validation,
        replace(network, name=network.name or _default_network(kind, benchmark)),
        without_schedule(points, optimisation, own),
    )


def points_of(axes: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """Return all combinations of the values of several axes.

    >>> points_of({"lr": [0.1, 0.2], "alpha": [1.0]})
    [{'lr': 0.1, 'alpha': 1.0}, {'lr': 0.2, 'alpha': 1.0}]
    """
    return [dict(zip(axes, point, strict=True)) for point in product(*axes.values())]


def _default_network(kind: type[Method], benchmark: Benchmark | None) -> str:
    if issubclass(kind, ClosedForm):
        return LINEAR
    return benchmark.network if benchmark else "mlp"
