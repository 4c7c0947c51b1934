"""Promises about behaviour that is declared: memory is used, and needs are, as a method says."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from recollect.streams.stream import Batch
from recollect.testing.check import Broken
from recollect.testing.compare import difference, shape_and_type, state_of
from recollect.testing.memory import slots_fault
from recollect.testing.trial import TASKS, Trial
from recollect.testing.usage import with_usage

__all__ = ["boundaries", "draws", "memory_fields", "revisits", "task_id", "writes"]


def draws(trial: Trial) -> None:
    """It draws as often as it declares, no more and no less."""
    usages, declared = trial.trajectory.usages, trial.trajectory.fleet.planner.draws
    if any(number >= len(usage.draws) for usage in usages for number in usage.used):
        raise Broken(
            f"it draws more often than it declares: `draws` of its replay is {declared}, so raise "
            f"it there or in setup"
        )
    filled = [
        u for u in usages if u.outcome and any(len(t[0]) for d in u.draws for t in d.values())
    ]
    unused = set(range(declared)).difference(*(usage.used for usage in filled))
    if filled and unused:
        raise Broken(
            f"it declares {declared} draws a step and never reads number {min(unused) + 1}: "
            f"lower `draws`"
        )


def memory_fields(trial: Trial) -> None:
    """It gives the fields that it declares, and no others, in the shapes that it declares."""
    usages, fields = trial.trajectory.usages, trial.trajectory.fleet.memory.tensors
    noted = fields.keys() - {"x", "y"}
    for usage, outcome in ((u, u.outcome) for u in usages if u.outcome):
        for name, value in outcome.fields.items():
            _fits("remember", name, value, usage.batch, noted, fields)
        for (number, name), value in outcome.rewritten.items():
            count = next(iter(usage.draws[number].values())).shape[1]
            _fits("rewrite", name, value, count, fields.keys(), fields)
        missing = noted - outcome.fields.keys()
        if missing and usage.on_arrival:
            raise Broken(
                f"it declares that it stores {min(missing)!r} and does not give it in every step: "
                f"call step.remember({min(missing)}=...)"
            )


def _fits(
    call: str, name: str, value: Tensor, n: int, known: Set[str], fields: Mapping[str, Tensor]
) -> None:
    if name not in known:
        raise Broken(
            f"it gives {name!r} to step.{call}, where that is not stored: declare it in `replay` "
            f"(x and y are stored as they came)"
        )
    like = fields[name].new_zeros(1).expand(len(value), n, *fields[name].shape[1:])
    if (value.shape, value.dtype) != (like.shape, like.dtype):
        raise Broken(
            f"it gives {name!r} to step.{call} as {shape_and_type(value)}, and declares "
            f"{shape_and_type(like)}"
        )


def writes(trial: Trial) -> None:
    """Slots that it chooses fit its memory, and what it rehearses stays there during a task."""
    trajectory = trial.trajectory
    for usage in trajectory.usages:
        slots = usage.outcome.slots if usage.outcome else None
        if slots is not None and (slots.dim() != 2 or slots.shape[1] != usage.batch):
            raise Broken(
                f"it gives step.store_at slots of the shape {list(slots.shape)} for batches of "
                f"{usage.batch}: give one for every run and example, [K, B]"
            )
        fault = "" if slots is None else slots_fault(slots, trajectory.fleet.memory.capacity)
        if fault:
            raise Broken(f"in step.store_at, {fault}")
    for before, after in pairwise(trajectory.snapshots):
        memory = {name: t for name, t in before.state.items() if name.startswith("memory.")}
        same_task = before.task == after.task and before.more_epochs == after.more_epochs
        if after.rehearsed and same_task and (found := difference(memory, after.state)):
            raise Broken(
                f"it rehearses {after.rehearsed} stored examples in task {after.task}, and its "
                f"memory changes meanwhile: {found}; write to it in end_task, with a policy that "
                f"stores nothing on arrival, such as TaskShares"
            )


def boundaries(trial: Trial) -> None:
    """It learns without task boundaries, or declares that it needs them and uses them."""
    without = replace(trial, boundaries=False)
    if trial.kind.needs.boundaries:
        try:
            fleet = without.walked(without.fleet())
        except Exception:  # it cannot learn without them
            return
        if not difference(state_of(fleet), state_of(trial.end)):
            raise Broken(
                "it declares that it needs boundaries, and learns the same without: do not declare "
                "it, and it may learn from any stream"
            )
        return
    methods, usages = with_usage(trial.methods)
    fleet = without.fleet(methods=methods)
    before = state_of(fleet)
    after = state_of(without.walked(fleet))
    learned = {name: t for name, t in after.items() if name.startswith(("weights.", "state."))}
    advice = "declare Needs(boundaries=True)"
    if all(torch.equal(before[name], tensor) for name, tensor in learned.items()):
        raise Broken(f"without boundaries nothing is learned: {advice}")
    if any(not bool(tensor.isfinite().all()) for tensor in learned.values()):
        raise Broken(f"without boundaries its weights are not finite: {advice}")
    replayed = [tensor for usage in usages for draw in usage.draws for tensor in draw.values()]
    if fleet.planner.draws and not any(tensor.shape[1] for tensor in replayed):
        raise Broken(
            f"without boundaries its memory stays empty, because its policy depends on tasks: "
            f"{advice}, or use another policy"
        )


def revisits(trial: Trial) -> None:
    """It reads examples of a task apart from its epochs only if it declares so."""
    other = trial.walked(trial.fleet(), change=lambda batch: Batch(255 - batch.x, batch.y))
    found = difference(state_of(other), state_of(trial.end))
    more = any(snapshot.more_epochs for snapshot in trial.trajectory.snapshots)
    if (found or more) and not trial.kind.needs.revisits:
        how = "asks for more epochs" if more else "reads them when a task begins or ends"
        raise Broken(f"it reads examples again ({how}): declare Needs(revisits=True)")
    if trial.kind.needs.revisits and not found and not more:
        raise Broken("it declares `revisits`, and reads no example again: do not declare it")


def task_id(trial: Trial) -> None:
    """Its predictions depend on the task, if it declares that it needs it."""
    fleet = trial.end
    x = trial.stream.test(fleet.seeds, 0).x
    if torch.equal(fleet.predict(x, 0), fleet.predict(x, TASKS - 1)):
        raise Broken(
            "it declares `task_id`, and predicts the same for every task: do not declare it, and "
            "it is scored in all settings"
        )
