"""Resize the memory of a learner's engine."""

from __future__ import annotations

from dataclasses import replace

import torch

from recollect.errors import InputError
from recollect.learner.engine.carry import carry
from recollect.learner.engine.engine import Engine
from recollect.learner.settings import Settings, bytes_in, is_whole
from recollect.memory import interchangeable

__all__ = ["resized", "with_memory"]


def with_memory(settings: Settings, memory: int | str) -> Settings:
    """Return the settings with another memory size; raise an `InputError` if it is invalid."""
    size = bytes_in(memory) if isinstance(memory, str) else memory
    if not is_whole(size) or size < 1:
        raise InputError(f"memory must be a whole number of at least 1, not {memory!r}")
    first = settings.memory if settings.first_memory is None else settings.first_memory
    return replace(settings, memory=memory, first_memory=first)


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
        engine.module, settings, engine.kind, engine.outputs, engine.numbered, engine.target
    )
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
