"""Promises about declarations: what a method says of itself is true."""

from __future__ import annotations

import math
from dataclasses import fields

import torch

from recollect.memory import ClassRing, Clock, Rule
from recollect.methods import Method
from recollect.streams.stream import Batch
from recollect.testing.check import Broken
from recollect.testing.same import difference, state
from recollect.testing.trial import TASKS, Trial
from recollect.testing.watch import watched

__all__ = ["boundaries", "declarations", "draws", "memory_fields", "own_choice", "revisits", "task"]

FIELDS = {"x", "y", "logits"}
FLAGS = (
    "places", "sees_plain", "needs_boundaries", "needs_task", "needs_all_data", "revisits", "grows",
    "scores_features", "mixes_memory",
)  # fmt: skip
# A hook that is called only if the method declares so.
HOOKS = {
    "start_task": "needs_boundaries",
    "end_task": "needs_boundaries",
    "for_task": "needs_task",
    "scores": "scores_features",
    "kept": "mixes_memory",
}


def declarations(method: Method) -> None:
    """A frozen dataclass of numbers, with a name, a title and a docstring of its own."""
    kind = type(method)
    for found in _named(kind), _numbers(method), _hooks(kind):
        if found:
            raise Broken(found)


def _named(kind: type[Method]) -> str:
    if "__dataclass_params__" not in vars(kind):
        return "it is no dataclass of its own: put @dataclass(frozen=True) above the class"
    for name in ("name", "title"):
        if not isinstance(getattr(kind, name, None), str) or not getattr(kind, name):
            return f"it has no {name}: give it one, such as {name}: ClassVar[str] = '...'"
    said = (kind.__doc__ or "").strip()
    if not said or said.startswith(f"{kind.__name__}("):
        return "it has no docstring: say in a sentence how it learns"
    return ""


def _numbers(method: Method) -> str:
    kind = type(method)
    for field in fields(method):
        value = getattr(method, field.name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            return f"its hyper-parameter {field.name} is {value!r}: it must be a finite number"
        if field.name in kind.shaping and not isinstance(value, int):
            return f"{field.name} shapes a step, but {value!r} is not a whole number"
    if unknown := set(kind.shaping) - set(kind.hyperparameters()):
        return f"`shaping` names {sorted(unknown)[0]!r}, which is no hyper-parameter"
    if unknown := set(kind.remembers) - FIELDS:
        return f"`remembers` names {sorted(unknown)[0]!r}: a memory keeps x, y and logits"
    for name in FLAGS:
        if not isinstance(getattr(kind, name), bool):
            return f"`{name}` is {getattr(kind, name)!r}: it must be True or False"
    counts = {"draws": kind.draws, "luck": kind.luck, "draws_per_step()": method.draws_per_step()}
    for name, value in counts.items():
        if not isinstance(value, int) or value < 0:
            return f"`{name}` is {value!r}: it must be a whole number, 0 or more"
    if kind.batch is not None and (not isinstance(kind.batch, int) or kind.batch < 1):
        return f"`batch` is {kind.batch!r}: it must be a whole number, 1 or more, or None"
    if method.draws_per_step() and not kind.remembers:
        return "it declares draws but remembers nothing: declare what a row of memory holds"
    return ""


def _hooks(kind: type[Method]) -> str:
    if kind.loss is Method.loss and kind.learn is Method.learn:
        return "it defines neither loss nor learn"
    for hook, flag in HOOKS.items():
        defined = getattr(kind, hook) is not getattr(Method, hook)
        if defined and not getattr(kind, flag):
            return f"it defines {hook}, which is called only if `{flag}` is declared: declare it"
    for hook, flag in (("scores", "scores_features"), ("kept", "mixes_memory")):
        if getattr(kind, flag) and getattr(kind, hook) is getattr(Method, hook):
            return f"it declares `{flag}` and does not define {hook}"
    return ""


def draws(trial: Trial) -> None:
    """It draws as often as it says, no more and no less."""
    notes = trial.course.notes
    declared = trial.methods[0].draws_per_step()
    if any(note.too_many for note in notes):
        raise Broken(
            f"it draws more often than it declares: `draws` is {declared}, so raise it, or define "
            f"draws_per_step"
        )
    whole = [note for note in notes if note.whole]
    some = [note for note in whole if any(len(r.get("x", ())) for r in note.replays)]
    used = set().union(*(note.used for note in some))
    if some and (unused := set(range(declared)) - used):
        raise Broken(
            f"it declares {declared} draws a step and never looks at number {min(unused) + 1}: "
            f"lower `draws`"
        )


def memory_fields(trial: Trial) -> None:
    """What it declares to remember is given, and what it gives is declared."""
    notes = trial.course.notes
    given = set().union(*(note.kept for note in notes)) if notes else set()
    kind = trial.kind
    if unknown := given - (set(kind.remembers) - {"x", "y"}):
        raise Broken(
            f"it gives {sorted(unknown)[0]!r} to step.remember, where that is not kept: declare it "
            f"in `remembers` (x and y are kept as they came)"
        )
    rule = trial.methods[0].rule(trial.fleet(runs=(0,)).memory.capacity)
    for name in set(kind.remembers) - {"x", "y"}:
        always = all(name in note.kept for note in notes if note.whole)
        if not always and _keeps(rule):
            raise Broken(
                f"it declares that it remembers {name!r} and does not give it in every step: call "
                f"step.remember({name}=...)"
            )


def _keeps(rule: Rule | ClassRing) -> bool:
    """Whether examples are kept as they arrive, and not at the end of a task."""
    if isinstance(rule, ClassRing):
        return True
    return rule.slots(torch.tensor([0]), Clock(), 1, 2).shape[2] > 0


def own_choice(trial: Trial) -> None:
    """Luck that is declared is used, and slots that are chosen are declared."""
    notes = trial.course.notes
    kind = trial.kind
    whole = any(note.whole for note in notes)
    if kind.luck and whole and not any(note.lucky for note in notes):
        raise Broken(f"it declares luck {kind.luck} and never looks at step.luck: set it to 0")
    if not kind.luck and any(note.lucky for note in notes):
        raise Broken("it looks at step.luck, which is empty unless `luck` says how much it needs")
    placed = any(note.placed for note in notes)
    if placed and not (kind.places or kind.luck):
        raise Broken("it calls step.place, which does nothing unless `places` is declared")
    if kind.places and whole and not placed:
        raise Broken("it declares `places` and never calls step.place: do not declare it")


def boundaries(trial: Trial) -> None:
    """Not told where tasks begin and end, it learns all the same, unless it says otherwise."""
    if trial.kind.needs_boundaries:
        _needed(trial)
        return
    methods, notes = watched(trial.methods)
    fleet = trial.fleet(methods=methods, told=False)
    before = state(fleet)
    trial.walked(fleet, told=False)
    moved = {n: t for n, t in state(fleet).items() if n.startswith("weights.")}
    if all(torch.equal(before[name], tensor) for name, tensor in moved.items()):
        raise Broken("without boundaries nothing is learned: declare `needs_boundaries`")
    if any(not bool(tensor.isfinite().all()) for tensor in moved.values()):
        raise Broken("without boundaries its weights are not finite: declare `needs_boundaries`")
    replays = [draw for note in notes for draw in note.replays]
    if trial.methods[0].draws_per_step() and not any(draw["x"].shape[1] for draw in replays):
        raise Broken(
            "without boundaries its memory stays empty, for its rule goes by tasks: declare "
            "`needs_boundaries`, or use another rule"
        )


def _needed(trial: Trial) -> None:
    try:
        untold = trial.walked(trial.fleet(told=False), told=False)
    except Exception:  # it cannot do without
        return
    if not difference(state(untold), state(trial.end)):
        raise Broken(
            "it declares `needs_boundaries`, and goes the same way without: do not declare it, and "
            "it may learn from any stream"
        )


def revisits(trial: Trial) -> None:
    """What it sees of a task at its boundaries does not matter, unless it says so."""

    def spoilt(found: Batch) -> Batch:
        return Batch(255 - found.x, found.y)

    other = trial.walked(trial.fleet(), shown=spoilt)
    found = difference(state(other), state(trial.end))
    more = trial.methods[0].extra_epochs()
    if (found or more) and not trial.kind.revisits:
        how = "has epochs on top" if more else "looks at them when a task begins or ends"
        raise Broken(f"it meets examples again ({how}): declare `revisits`")
    if trial.kind.revisits and not found and not more:
        raise Broken("it declares `revisits`, and meets no example again: do not declare it")


def task(trial: Trial) -> None:
    """What it answers depends on the task that it is told."""
    fleet = trial.end
    x = trial.stream.test(fleet.seeds, 0).x
    if torch.equal(fleet.scores(x, 0), fleet.scores(x, TASKS - 1)):
        raise Broken(
            "it declares `needs_task`, and answers alike whichever task it is told: do not declare "
            "it, and it is scored in all settings"
        )
