"""Golden numbers: what every method did when they were recorded.

A change of the library's structure must change no result. These files say so: for each method, on
dense and convolutional networks, with its options, which examples arrived, what was drawn and
where it was stored (exactly, as digests), the loss of every step, the tensors at the end (as a few
projections each) and the accuracies. `test_golden.py` runs everything again and compares.

    python -m tests.golden.record              # all methods
    python -m tests.golden.record der fdr      # these only

When to record anew:

- A repair of one method's equation records that method, and no other one. The commit says which
  numbers changed and why.
- A new method, option or kind of run is added; what was there stays as it is.
- Never because a restructured method, memory or planner gives other numbers: that is what this is
  to find. Never because draws changed: the purposes of `recollect.core.random` are fixed, and a
  seed keeps its meaning.

The numbers are computed in double precision and hold to 1e-10 of their size, on one thread or two.
Initial weights come from torch's generator; should a version of torch change it, all are recorded
anew with the code of the last release before anything else is changed.
"""

from __future__ import annotations

import json
import math
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tests.golden import cases, driver
from torch import Tensor

from recollect import InputError, Learner
from recollect.learner.engine.engine import Engine

__all__ = ["FOLDER", "alone", "learned", "options_of", "recorded", "settings", "summary"]

FOLDER = Path(__file__).parent
KINDS = ("digits", "images")
DECIMALS = 12


def recorded(name: str) -> dict[str, Any]:
    """All numbers of a method: of its runs by options and network, and of a learner with it."""
    found: dict[str, Any] = {}
    for label, options in options_of(name).items():
        found[label] = {kind: alone(name, options, kind) for kind in KINDS}
    if name in driver.learner_methods():
        found["learner"] = {kind: learned(name, kind) for kind in KINDS}
    return found


def options_of(name: str) -> dict[str, dict[str, float]]:
    """The options that a method is run with, by what they are called in a file."""
    given = [{}, *cases.OPTIONS.get(name, [])]
    return {" ".join(f"{n}={v}" for n, v in each.items()) or "default": each for each in given}


def alone(name: str, options: dict[str, float], kind: str) -> list[dict[str, Any]] | str:
    """The numbers of each seed's run alone; or that the method refuses the network."""
    try:
        runs = [settings(name, options, kind)([seed], stepwise=True)[0] for seed in cases.SEEDS]
    except InputError:
        return "refused"
    return [summary(run) for run in runs]


def settings(name: str, options: dict[str, float], kind: str) -> partial[list[dict[str, Any]]]:
    """A call that wants seeds, and whether to take steps one by one."""
    data = cases.data(kind, driver.needs_one_by_one(name))
    replayed: dict[str, Any] = {}
    if driver.uses_memory(name):
        replayed = {"buffer": cases.BUFFER, "mbs": 10}
    return partial(
        driver.run, data.stream, cases.method(name, options), partial(cases.network, kind),
        epochs=data.epochs, lr=cases.RATE, bs=data.batch, **replayed,
    )  # fmt: skip


def learned(name: str, kind: str) -> dict[str, Any]:
    """The numbers of a learner: classes are met one by one, if the method can let outputs grow."""
    torch.manual_seed(5)
    few, all_of_them = (cases.network(kind, n).double() for n in (2, cases.CLASSES))
    told: dict[str, Any] = {"memory": cases.BUFFER, "replay": 10, "lr": cases.RATE, "seed": 7}
    told["clip"] = math.inf  # the numbers are older than the default
    method, batches, grows = cases.method(name, {}), cases.arriving(name, kind), True
    try:
        learner = Learner(few, method, spare=1, **told)
        losses = [learner.observe(x, y) for x, y in batches]
    except InputError:
        grows = False
        classes = [f"class {label}" for label in range(cases.CLASSES)]
        learner = Learner(all_of_them, method, classes=classes, **told)
        losses = [learner.observe(x, y) for x, y in batches]
    x = torch.cat([x for x, _ in batches[::3]])
    state = _network_state(learner._now.ready())
    state["probabilities"] = torch.as_tensor(learner.predict_proba(x))
    places = [learner.classes.index(label) for label in learner.predict(x)]
    found = {"grows": grows, "losses": losses, "predicted": places, "state": state}
    return {name: summary(each) for name, each in found.items()}


def _network_state(engine: Engine) -> dict[str, Tensor]:
    """What is exported; the weights and statistics, where the method exports nothing."""
    try:
        return dict(engine.trained().state_dict())
    except InputError:
        tensors = {**engine.fleet.weights.named(), **engine.fleet.network.buffers}
        return {name: tensor[0] for name, tensor in tensors.items()}


def summary(value: Any, name: str = "") -> Any:
    """The same with tensors as numbers, and numbers with fewer decimals; memory's are digests."""
    if isinstance(value, dict):
        return {n: summary(each, n) for n, each in value.items()}
    if isinstance(value, list | tuple):
        return [summary(each, name) for each in value]
    if isinstance(value, Tensor):
        if not value.is_floating_point() or name == "memory.x":
            return driver.digest(value)
        return projections(value)
    return _short(value) if isinstance(value, float) else value


def projections(tensor: Tensor) -> list[float]:
    """The root of the mean square, the mean, and the mean product with fixed numbers in [-1, 1)."""
    flat = tensor.detach().double().flatten()
    if not len(flat):
        return [0.0, 0.0, 0.0]
    place = torch.arange(len(flat))
    fixed = ((place * (place + 1) // 2 * 2654435761 + place * 40503) % 2**32) / 2**31 - 1
    means = (flat.square().mean().sqrt(), flat.mean(), (flat * fixed).mean())
    return [_short(float(each)) for each in means]


def _short(value: float) -> float:
    assert math.isfinite(value), "a recorded number must be one"
    return float(f"{value:.{DECIMALS}g}")


def main(names: list[str]) -> None:
    """Record the named methods, or all."""
    for name in names or driver.METHODS:
        text = json.dumps(recorded(name), separators=(",", ":"))
        lines = text.replace('{"tasks"', '\n{"tasks"').replace('"learner"', '\n"learner"')
        (FOLDER / f"{name}.json").write_text(lines + "\n", "utf-8")
        print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
