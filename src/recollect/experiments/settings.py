"""Optimiser settings of runs: checks, and leaving out those that change nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from recollect.core.fleet_optimiser import DEFAULTS
from recollect.errors import InputError
from recollect.train.optimisation import SCHEDULE_SETTINGS, Optimisation

Axes = dict[str, list[float]]


def check_settings(given: Mapping[str, float]) -> None:
    """Raise an `InputError` for numbers of an optimiser or schedule that make no sense."""
    for name in ("warmup", "decay_every"):
        if (steps := given.get(name, 0.0)) != int(steps):
            raise InputError(f"{name} is a number of steps and must be whole, not {steps:g}")
    factor = given.get("decay_factor", 1.0)
    if not 0 < factor <= 1:
        raise InputError(
            f"decay_factor must be above 0 and at most 1, not {factor:g}: the learning rate is "
            f"multiplied by it"
        )
    if given.get("eps", 1.0) == 0:
        raise InputError(
            "eps must be greater than 0, such as 1e-8: Adam would divide by 0 where a gradient is 0"
        )


def without_defaults(axes: Axes, optimisation: Optimisation, own: Iterable[str]) -> Axes:
    """Leave out settings whose only value is the one that they have when they are not given.

    `momentum=0` alone is plain SGD, and has its identity. `own` are the method's hyper-parameters.

    >>> without_defaults({"lr": [0.1], "momentum": [0.0]}, Optimisation(), [])
    {'lr': [0.1]}
    """
    usual = {**DEFAULTS[optimisation.optimiser], **SCHEDULE_SETTINGS}
    for name in own:
        usual.pop(name, None)
    return {name: axis for name, axis in axes.items() if name not in usual or axis != [usual[name]]}


def without_schedule(
    points: Iterable[Mapping[str, float]], optimisation: Optimisation, own: Iterable[str]
) -> Optimisation:
    """Drop `schedule_per="task"` if the learning rate is constant: there is nothing to restart."""
    warm = "warmup" not in own and any(point.get("warmup") for point in points)
    if optimisation.schedule == "constant" and not warm:
        return replace(optimisation, per="stream")
    return optimisation
