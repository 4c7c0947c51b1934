"""Change an engine between two steps: for new labels, another scale of values, or weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recollect.core.dense import Dense
from recollect.core.modules import Features
from recollect.core.targets import Target, with_weights
from recollect.errors import InputError
from recollect.learner.answers import Answers
from recollect.learner.carried import carry
from recollect.learner.engine import Engine
from recollect.learner.values import Values

__all__ = ["adapted", "in_units", "targets_of"]

STORED = 10.0
NO_HEAD = (
    "values are scaled in the last layer of the network: with target='regression' it must be a "
    "linear one with a bias, whose outputs are those of the network"
)


def adapted(engine: Engine, before: Answers, known: Answers, weights: np.ndarray | None) -> Engine:
    """The engine for what is known now; another one if it had to change, so the old one stays."""
    if isinstance(known, Values):
        _check_head(engine, len(known))
        change = before.change_to(known) if isinstance(before, Values) else None
        engine = engine if change is None else _rescaled(engine, *change)
    elif len(known) > engine.outputs:
        engine = engine.grown(len(known) + engine.settings.spare)
    if weights is not None and not engine.target.weighted and bool((weights != 1).any()):
        engine = _weighted(engine)
    return engine


def targets_of(engine: Engine, y: np.ndarray, weights: np.ndarray | None) -> Tensor:
    """Targets `[n, ...]` as the engine learns them, with the weights if it has such."""
    targets = torch.from_numpy(y)
    if engine.target.weighted:
        given = np.ones(len(y), dtype=np.float32) if weights is None else weights
        targets = with_weights(targets, torch.from_numpy(given))
    return targets.to(engine.settings.device)


@torch.no_grad()
def in_units(module: nn.Module, values: Values) -> nn.Module:
    """A trained module whose outputs are in the user's units, changed in place."""
    head: Any = Features(module).head
    mean, deviation = (
        torch.from_numpy(part).to(head.bias) for part in (values.mean, values.deviation)
    )
    head.weight.mul_(deviation if isinstance(head, Dense) else deviation[:, None])
    head.bias.mul_(deviation).add_(mean)
    return module


def _rescaled(engine: Engine, factor: Tensor, shift: Tensor) -> Engine:
    """The engine whose outputs are `factor` times those of before, plus `shift`, `[D]` each.

    What is stored changes in the same way; a stored value that turns out to be an outlier, more
    than 10 deviations away, is moved to there. The state of the optimiser stays.

    Where the scale was wrong by more than a factor of 10, as with an outlier among the first
    examples, what the network has learned in it would be errors of many deviations: then its
    outputs stay as they are, in the new scale.
    """
    sound = float(factor.max()) <= STORED and float(shift.abs().max()) <= STORED
    axes = engine.fleet.network.head_axes if sound else {}

    def changed(name: str, tensor: Tensor) -> Tensor:
        kind, _, rest = name.partition(".")
        times, plus = (part.to(tensor.device, torch.float64) for part in (factor, shift))
        if kind == "weights" and rest in axes:
            size = [1] * tensor.dim()
            size[axes[rest]] = -1
            found = tensor.double() * times.view(size)
            return (found + plus if rest.endswith("bias") else found).to(tensor.dtype)
        if name == "memory.y" or (name == "memory.logits" and sound):
            weighted = name == "memory.y" and engine.target.weighted
            found = tensor.double().clone()
            values = found[:, int(weighted) :].mul_(times).add_(plus)
            if name == "memory.y":
                values.clamp_(-STORED, STORED)
            return found.to(tensor.dtype)
        return tensor

    return _rebuilt(engine, engine.target, changed)


def _weighted(engine: Engine) -> Engine:
    """The engine whose examples have weights; those that are stored have a weight of 1."""

    def changed(name: str, tensor: Tensor) -> Tensor:
        if name != "memory.y":
            return tensor
        return with_weights(tensor, torch.ones(len(tensor), device=tensor.device))

    return _rebuilt(engine, engine.target.with_weights(), changed)


def _rebuilt(engine: Engine, target: Target, changed: Callable[[str, Tensor], Tensor]) -> Engine:
    parts = engine.module, engine.settings, engine.kind, engine.outputs, engine.numbered
    found, same = Engine(*parts, target), Engine(*parts, engine.target)
    # A memory of a size in bytes has fewer slots if an example needs more of them.
    carry(engine.fleet, same.fleet)
    if found.fleet.memory.capacity < same.fleet.memory.capacity:
        settings = replace(engine.settings, memory=found.fleet.memory.capacity)
        same = Engine(engine.module, settings, *parts[2:], engine.target)
        carry(engine.fleet, same.fleet)
    tensors = {name: changed(name, tensor) for name, tensor in same.fleet.tensors().items()}
    found.fleet.restore(tensors, same.fleet.clock)
    return found


def _check_head(engine: Engine, values: int) -> None:
    if engine.fleet.steps:
        return
    if engine.outputs > values:
        raise InputError(
            f"the network has {engine.outputs} outputs, and an example has {values} value(s) to be "
            f"estimated: give it one for each"
        )
    weights = engine.fleet.weights.named()
    sizes = [weights[name].shape[axis] for name, axis in engine.fleet.network.head_axes.items()]
    if sizes != [engine.outputs] * 2:
        raise InputError(NO_HEAD)
