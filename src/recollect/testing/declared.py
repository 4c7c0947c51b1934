"""Checks that a method's declarations are complete and match its behaviour."""

from __future__ import annotations

import ast
import inspect
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, pairwise

import torch
from torch import Tensor

from recollect.errors import InputError
from recollect.methods import ClosedForm, Method, Setup, check_name, hyperparameters
from recollect.methods.base import uncalled_hook
from recollect.streams.stream import Batch
from recollect.testing.check import Broken
from recollect.testing.compare import (
    container_sizes,
    difference,
    new_tensor_bytes,
    shape_and_type,
    state_of,
)
from recollect.testing.memory import slots_fault
from recollect.testing.trial import BATCH, PER_TASK, SPEC, TASKS, Trial, tasks_of, with_usage


def declarations(method: Method) -> None:
    """It is a frozen dataclass of numbers with a name, a title and help; declarations are valid."""
    for sentence in chain(_texts(type(method)), _numbers(method), _setup(method)):
        raise Broken(sentence)


def _texts(kind: type[Method]) -> Iterator[str]:
    if "__dataclass_params__" not in vars(kind):
        yield "its class is not a dataclass: add @dataclass(frozen=True) to the class"
    for name in ("name", "title"):
        if not isinstance(getattr(kind, name, None), str) or not getattr(kind, name):
            yield f"it has no {name}: define one, such as {name}: ClassVar[str] = '...'"
            return
    try:
        check_name(kind)
    except InputError as error:
        yield str(error)
    said = (kind.__doc__ or "").strip()
    if not said or said.startswith(f"{kind.__name__}("):
        yield "it has no docstring: describe the method in a sentence"
    if kind.loss is Method.loss and kind.update is Method.update:
        yield "it defines neither loss nor update"
    if uncalled := uncalled_hook(kind):
        yield uncalled


def _numbers(method: Method) -> Iterator[str]:
    named = _named_in_code(type(method))
    for name, hyperparameter in hyperparameters(type(method)).items():
        value = getattr(method, name)
        if isinstance(value, bool) and not hyperparameter.static:
            yield (
                f"its hyper-parameter {name} is {value}: declare a switch with "
                f"{name}: int = recollect.hyper(0, '...'), 0 for off and 1 for on"
            )
        elif not isinstance(value, int | float) or not math.isfinite(value):
            yield f"its hyper-parameter {name} is {value!r}: it must be a finite number"
        if hyperparameter.static and not isinstance(value, int):
            yield f"{name} is annotated int, but {value!r} is not a whole number"
        if not hyperparameter.help:
            yield (
                f"its hyper-parameter {name} has no help text: declare it with "
                f"{name}: float | Tensor = recollect.hyper({value!r}, '...')"
            )
        if named and name not in (*named, "balanced"):
            yield f"it never uses its hyper-parameter {name}: read self.{name}, or remove it"


def _named_in_code(kind: type[Method]) -> set[str]:
    """The attributes and strings in the code of a class, its bases and their modules' functions.

    Empty if the source of a class is not available, as in an interactive session.
    """
    classes = [each for each in kind.__mro__ if issubclass(each, Method) and each is not Method]
    names, found = {each.__name__ for each in classes}, set[str]()
    for each in classes:
        try:
            tree = ast.parse(inspect.getsource(sys.modules[each.__module__]))
        except (KeyError, OSError, SyntaxError, TypeError):
            return set()
        parts = [p for p in tree.body if not isinstance(p, ast.ClassDef) or p.name in names]
        nodes = [node for part in parts for node in ast.walk(part)]
        if each.__name__ not in {node.name for node in nodes if isinstance(node, ast.ClassDef)}:
            return set()
        found |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        found |= {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    return found


def _setup(method: Method) -> Iterator[str]:
    setup: object = method.setup(SPEC)
    if not isinstance(setup, Setup):
        yield f"its setup returns {setup!r}: it must return a recollect.Setup"
    elif setup.replay is not None and method.replay is None:
        yield "its setup has a replay, but its class has none: declare `replay` in the class too"


def draws(trial: Trial) -> None:
    """It uses exactly the number of draws that it declares."""
    usages, declared = trial.trajectory.usages, trial.trajectory.fleet.planner.draws
    filled = [
        u for u in usages if u.outcome and any(len(t[0]) for d in u.draws for t in d.values())
    ]
    unused = set(range(declared)).difference(*(usage.used for usage in filled))
    if filled and unused:
        raise Broken(
            f"it declares {declared} draws per step but never uses draw {min(unused) + 1}: "
            f"reduce `draws`"
        )


def memory_fields(trial: Trial) -> None:
    """It stores exactly the fields that it declares, with the declared shapes and types."""
    usages, fields = trial.trajectory.usages, trial.trajectory.fleet.memory.tensors

    def check(call: str, name: str, value: Tensor, n: int) -> None:
        like = fields[name].new_zeros(1).expand(len(value), n, *fields[name].shape[1:])
        if (value.shape, value.dtype) != (like.shape, like.dtype):
            raise Broken(
                f"it passes {name!r} to step.{call} as {shape_and_type(value)}, but declares "
                f"{shape_and_type(like)}"
            )

    for usage, outcome in ((u, u.outcome) for u in usages if u.outcome):
        for name, value in outcome.fields.items():
            check("remember", name, value, usage.batch)
        for (number, name), value in outcome.rewritten.items():
            check("rewrite", name, value, next(iter(usage.draws[number].values())).shape[1])
        missing = fields.keys() - {"x", "y"} - outcome.fields.keys()
        if missing and usage.on_arrival:
            raise Broken(
                f"it declares the stored field {min(missing)!r} but does not set it in every step: "
                f"call step.remember({min(missing)}=...)"
            )


def writes(trial: Trial) -> None:
    """Slots that it chooses are valid, and rehearsed examples do not change during a task."""
    trajectory = trial.trajectory
    for usage in trajectory.usages:
        slots = usage.outcome.slots if usage.outcome else None
        if slots is not None and (slots.dim() != 2 or slots.shape[1] != usage.batch):
            raise Broken(
                f"it passes slots of shape {list(slots.shape)} to step.store_at for batches of "
                f"{usage.batch}: pass one slot for every run and example, [K, B]"
            )
        fault = "" if slots is None else slots_fault(slots, trajectory.fleet.memory.capacity)
        if fault:
            raise Broken(f"in step.store_at, {fault}")
    for before, after in pairwise(trajectory.snapshots):
        memory = {name: t for name, t in before.state.items() if name.startswith("memory.")}
        same_task = before.task == after.task and before.more_epochs == after.more_epochs
        if after.rehearsed and same_task and (found := difference(memory, after.state)):
            raise Broken(
                f"it rehearses {after.rehearsed} stored examples in task {after.task}, but its "
                f"memory changes during the task: {found}; write to memory in end_task only, with "
                f"a policy that does not store incoming examples, such as TaskShares"
            )


def boundaries(trial: Trial) -> None:
    """It learns without task boundaries, or declares that it needs them and depends on them."""
    without = replace(trial, boundaries=False)
    if trial.kind.needs.boundaries:
        try:
            fleet = without.walked(without.fleet())
        except Exception:  # it cannot train without them
            return
        if not difference(state_of(fleet), state_of(trial.end)):
            raise Broken(
                "it declares `boundaries`, but learns the same without them: remove the "
                "declaration, so that it can learn from any stream"
            )
        return
    methods, usages = with_usage(trial.methods)
    fleet = without.fleet(methods=methods)
    before = state_of(fleet)
    after = state_of(without.walked(fleet))
    learned = {name: t for name, t in after.items() if name.startswith(("weights.", "state."))}
    advice = "declare Needs(boundaries=True)"
    if all(torch.equal(before[name], tensor) for name, tensor in learned.items()):
        raise Broken(f"without boundaries it does not learn: {advice}")
    if any(not bool(tensor.isfinite().all()) for tensor in learned.values()):
        raise Broken(f"without boundaries its weights are not finite: {advice}")
    replayed = [tensor for usage in usages for draw in usage.draws for tensor in draw.values()]
    if fleet.planner.draws and not any(tensor.shape[1] for tensor in replayed):
        raise Broken(
            f"without boundaries its memory stays empty, because its memory policy depends on "
            f"tasks: {advice}, or use another policy"
        )


def revisits(trial: Trial) -> None:
    """It reads examples of a task in addition to its epochs only if it declares so."""
    other = trial.walked(trial.fleet(), change=lambda batch: Batch(255 - batch.x, batch.y))
    found = difference(state_of(other), state_of(trial.end))
    more = any(snapshot.more_epochs for snapshot in trial.trajectory.snapshots)
    if (found or more) and not trial.kind.needs.revisits:
        how = "requests more epochs" if more else "reads them at task start or end"
        raise Broken(f"it reads examples again ({how}): declare Needs(revisits=True)")
    if trial.kind.needs.revisits and not found and not more:
        raise Broken("it declares `revisits`, but reads no example again: remove the declaration")


def trains(trial: Trial) -> None:
    """It trains weights of the network, or is a `ClosedForm`."""
    before, after = state_of(trial.fleet()), state_of(trial.end)
    parts = ("weights.", "buffers.")
    changed = [n for n in before if n.startswith(parts) and not torch.equal(before[n], after[n])]
    closed = issubclass(trial.kind, ClosedForm)
    if closed and changed:
        raise Broken(f"it is a `ClosedForm`, but {changed[0]} changes: make it a `Method`")
    if not closed and not changed:
        raise Broken("it does not train any weights: make it a `ClosedForm`, with `export`")


def task_id(trial: Trial) -> None:
    """Its predictions depend on the task if it declares `task_id`."""
    fleet = trial.end
    x = trial.stream.test(fleet.seeds, 0).x
    if torch.equal(fleet.predict(x, 0), fleet.predict(x, TASKS - 1)):
        raise Broken(
            "it declares `task_id`, but predicts the same for every task: remove the declaration, "
            "so that it is evaluated in all settings"
        )


def bounded_over_steps(trial: Trial) -> None:
    """Its memory use does not grow with the number of steps."""
    with new_tensor_bytes() as measure:
        fleet, sizes, before = trial.fleet(runs=(0,)), [], container_sizes(trial.methods[0])
        longer = replace(trial, epochs=8)
        for epoch, _ in zip(range(8), longer.walk(fleet, steps=None), strict=False):
            if epoch in (3, 7):
                sizes.append(measure())
    if sizes[-1] > sizes[0]:
        raise Broken(
            f"after twice the steps it stores {sizes[-1] - sizes[0]:,} bytes more: use tensors of "
            f"fixed size (`state` of its setup, `replay`)"
        )
    if container_sizes(trial.methods[0]) > before:
        raise Broken(
            "its class or instance has a container that grows with every step: use step.state"
        )


def bounded_over_tasks(trial: Trial) -> None:
    """Its memory use grows with the number of tasks only if it declares so."""
    streams = (tasks_of(tasks, count=2 * BATCH, classes=5 * PER_TASK) for tasks in (2, 5))
    few, many = (replace(trial, stream=stream) for stream in streams)
    fleets = [each.fleet(runs=(0,)).tensors().values() for each in (few, many)]
    sizes = [sum(t.numel() * t.element_size() for t in tensors) for tensors in fleets]
    grown = sizes[1] - sizes[0]
    if not grown:
        with new_tensor_bytes() as measure:
            fleet, by_task = many.fleet(runs=(0,)), list[int]()
            for snapshot in many.walk(fleet, steps=None):
                if snapshot.task == len(by_task):
                    by_task.append(measure())
            grown = by_task[4] - by_task[2]
    if grown > 0 and not trial.kind.needs.grows:
        raise Broken(
            f"with more tasks it stores {grown:,} bytes more: declare Needs(grows=True), or store "
            f"a sum or average over tasks"
        )
    if trial.kind.needs.grows and grown <= 0:
        raise Broken(
            "it declares `grows`, but does not store more with more tasks: remove the declaration"
        )
