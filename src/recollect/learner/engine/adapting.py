"""Create the engine of a learner, and adapt it between steps.

It adapts to new labels, a new target scale, example weights, or another memory size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recollect.core.calling import logits_of
from recollect.core.dense import Dense
from recollect.core.modules import Features
from recollect.core.targets import Target, with_weights
from recollect.errors import InputError
from recollect.learner.engine.carry import carry
from recollect.learner.engine.engine import Engine
from recollect.learner.engine.probing import probed
from recollect.learner.inputs.examples import Kind
from recollect.learner.settings import Settings
from recollect.learner.targets.answers import Answers
from recollect.learner.targets.values import Values
from recollect.memory import interchangeable

STORED = 10.0
NO_HEAD = (
    "target='regression' rescales the last layer of the network, so this must be a linear layer "
    "with a bias whose outputs are the outputs of the network: remove any sigmoid or clamp after it"
)


def first_engine(
    module: nn.Module, settings: Settings, kind: Kind, labels: Answers, examples: Tensor, *,
    numbered: bool = False,
) -> Engine:  # fmt: skip
    """Create an engine with an output for every label, and spare ones if outputs are added."""
    engine = Engine(module, settings, kind, len(labels), numbered, examples=examples)
    if engine.outputs > len(labels) or labels.fixed or not settings.spare:
        return engine
    try:
        more = len(labels) + settings.spare
        return Engine(module, settings, kind, more, numbered, examples=examples)
    except InputError:  # the network cannot be extended, and may never need to be
        return engine


def adapted(
    engine: Engine, before: Answers, known: Answers, weights: np.ndarray | None, examples: Tensor
) -> Engine:
    """Adapt an engine to the known targets and weights; return a new one if it has to change.

    The old engine is not modified, so that the step can still be undone. A new network is tried on
    one of the examples `[n, ...]`.
    """
    if isinstance(known, Values):
        _check_head(engine, len(known), examples)
        change = before.change_to(known) if isinstance(before, Values) else None
        engine = engine if change is None else _rescaled(engine, *change, examples)
    elif len(known) > engine.outputs:
        engine = engine.grown(len(known) + engine.settings.spare, examples)
    if weights is not None and not engine.target.weighted and bool((weights != 1).any()):
        engine = _weighted(engine, examples)
    return engine


def targets_of(engine: Engine, y: np.ndarray, weights: np.ndarray | None) -> Tensor:
    """Convert encoded targets `[n, ...]` to a CPU tensor, with weights if the engine has them."""
    targets = torch.from_numpy(y)
    if engine.target.weighted:
        given = np.ones(len(y), dtype=np.float32) if weights is None else weights
        targets = with_weights(targets, torch.from_numpy(given))
    return targets


@torch.no_grad()
def in_units(module: nn.Module, values: Values) -> nn.Module:
    """Rescale the last layer of a trained module in place, to outputs in the units of y."""
    head: Any = Features(module).head
    mean, deviation = (
        torch.from_numpy(part).to(head.bias) for part in (values.mean, values.deviation)
    )
    head.weight.mul_(deviation if isinstance(head, Dense) else deviation[:, None])
    head.bias.mul_(deviation).add_(mean)
    return module


def resized(engine: Engine, settings: Settings) -> Engine:
    """Return a copy of an engine with the memory size of these settings.

    If the policy counts classes and the memory grows, the counts restart from the stored examples:
    no class counts as full, so that each can get its share of the new slots.
    """
    title, policy = settings.method.title, engine.fleet.planner.policy
    if policy is None:
        raise InputError(f"{title} stores no examples, so there is no memory to resize")
    if not interchangeable(policy):
        raise InputError(
            f"the memory of {title} reserves slots for each class ({type(policy).__name__}), so it "
            f"cannot be resized: create a new learner with memory={settings.memory!r}"
        )
    found = Engine(
        engine.module, settings, engine.kind, engine.outputs, engine.numbered, engine.target,
        engine.stored,
    )  # fmt: skip
    old, new = engine.fleet, found.fleet
    for name, tensor in old.state.items():
        if name not in old.by_slot and tensor.shape != new.state[name].shape:
            raise InputError(
                f"{title} has state ({name}) whose shape depends on the size of the memory, so it "
                f"cannot be resized: create a new learner with memory={settings.memory!r}"
            )
    carry(old, new)
    if new.planner.counts is not None and new.memory.capacity > old.memory.capacity:
        labels = new.memory.tensors["y"][new.planner.filled(new.clock).to(new.device)]
        stored = torch.bincount(labels, minlength=new.classes)
        new.planner.counts.copy_(stored.unsqueeze(0))
    return found


def _rescaled(engine: Engine, factor: Tensor, shift: Tensor, examples: Tensor) -> Engine:
    """Return a copy of the engine with outputs scaled by `factor` and shifted by `shift`, `[D]`.

    Stored targets and logits are rescaled too; stored targets are clamped to 10 deviations. The
    optimiser state is kept.

    If the old scale was wrong by more than a factor of 10, for instance because of an outlier among
    the first examples, the rescaled outputs would be wrong by many deviations. Then the network and
    the stored logits are left unchanged.
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

    return _rebuilt(engine, engine.target, changed, examples)


def _weighted(engine: Engine, examples: Tensor) -> Engine:
    """Return a copy of the engine with weighted examples; stored ones get a weight of 1."""

    def changed(name: str, tensor: Tensor) -> Tensor:
        if name != "memory.y":
            return tensor
        return with_weights(tensor, torch.ones(len(tensor), device=tensor.device))

    return _rebuilt(engine, engine.target.with_weights(), changed, examples)


def _rebuilt(
    engine: Engine, target: Target, changed: Callable[[str, Tensor], Tensor], examples: Tensor
) -> Engine:
    parts = engine.module, engine.settings, engine.kind, engine.outputs, engine.numbered
    found, same = Engine(*parts, target, examples), Engine(*parts, engine.target, examples)
    # With a memory size in bytes, larger examples leave fewer slots.
    carry(engine.fleet, same.fleet)
    if found.fleet.memory.capacity < same.fleet.memory.capacity:
        settings = replace(engine.settings, memory=found.fleet.memory.capacity)
        same = Engine(engine.module, settings, *parts[2:], engine.target, examples)
        carry(engine.fleet, same.fleet)
    tensors = {name: changed(name, tensor) for name, tensor in same.fleet.tensors().items()}
    found.fleet.restore(tensors, same.fleet.clock)
    return found


def _check_head(engine: Engine, values: int, examples: Tensor) -> None:
    if engine.fleet.steps:
        return
    if engine.outputs > values:
        raise InputError(
            f"the network has {engine.outputs} outputs, but an example has {values} target "
            f"value(s): use a network with one output for each value"
        )
    weights = engine.fleet.weights.named()
    sizes = [weights[name].shape[axis] for name, axis in engine.fleet.network.head_axes.items()]
    if sizes != [engine.outputs] * 2 or not _gives_its_outputs(engine, examples):
        raise InputError(NO_HEAD)


def _gives_its_outputs(engine: Engine, examples: Tensor) -> bool:
    """Whether the outputs of the last layer are those of the network: no sigmoid, no clamp."""
    module, given, found = engine.module, list[Tensor](), list[Tensor]()

    def replaced(layer: nn.Module, inputs: object, output: Tensor) -> Tensor:
        probe = torch.linspace(-1000, 1000, output.numel()).to(output).view_as(output)
        given.append(probe)
        return probe

    def note(network: nn.Module, inputs: object, output: object) -> None:
        found.append(logits_of(output))

    head = Features(module).head
    hooks = head.register_forward_hook(replaced), module.register_forward_hook(note)
    try:
        probed(module, engine.kind, engine.settings.device, examples)
    finally:
        for hook in hooks:
            hook.remove()
    return bool(given) and torch.equal(found[0].flatten(), given[0].flatten().to(found[0]))
