"""The check that every hyper-parameter of a method has an effect."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from torch import Tensor

from recollect.methods import Method, hyperparameters
from recollect.methods.options import Hyperparameter
from recollect.testing.check import Broken
from recollect.testing.compare import difference, state_of
from recollect.testing.trial import Trial

FACTORS = (2.0, 0.5, 1e-3, 1e3, 0.0)


def effects(trial: Trial) -> None:
    """Every hyper-parameter has an effect on the weights, the state, the memory or predictions."""
    method = trial.methods[0]
    usual = _end(trial, method)
    for name, hyperparameter in hyperparameters(trial.kind).items():
        tried = []
        for value in _others(hyperparameter, getattr(method, name)):
            with suppress(Exception):  # the method need not accept it
                if difference(usual, _end(trial, replace(method, **{name: value}))):
                    break
                tried.append(value)
        else:
            if tried:
                counts = hyperparameter.static and hyperparameter.default != 0
                switch = ", or, if it is a switch, declare it with the default 0" if counts else ""
                raise Broken(
                    f"its hyper-parameter {name} has no effect: with {name} = "
                    f"{', '.join(f'{value:g}' for value in tried)} a run is the same as with "
                    f"{getattr(method, name):g}; use it, or remove it{switch}"
                )


def _others(hyperparameter: Hyperparameter, value: float) -> list[float]:
    """Other values of a hyper-parameter, the most likely to be accepted first."""
    if not hyperparameter.static:
        return [value * factor for factor in FACTORS] if value else [1.0, 0.1, 10.0]
    if hyperparameter.default == 0:
        return [0 if value else 1]
    return [other for other in dict.fromkeys((int(value) + 1, 1, 2)) if other != value]


def _end(trial: Trial, method: Method) -> Mapping[str, Tensor]:
    """The state and the predictions of a single run after all tasks."""
    fleet = trial.walked(trial.fleet(runs=(0,), methods=[method]), steps=None)
    tests = {task: trial.stream.test(fleet.seeds, task).x for task in range(trial.stream.tasks)}
    predicted = {f"prediction {task}": fleet.predict(x, task) for task, x in tests.items()}
    return {**state_of(fleet), **predicted}
