"""What every memory rule promises, as checks that anybody can run on a rule of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from recollect.memory import ClassRing, Rule
from recollect.testing.check import Broken, Check, run_all
from recollect.testing.generators import other_generators
from recollect.testing.held import fresh_bytes, things
from recollect.testing.plans import (
    DRAWS,
    REPLAY,
    SEEDS,
    Plan,
    Watched,
    clocks,
)

__all__ = ["check_memory", "memory_checks"]

CAPACITIES = (3, 13)
Made = Rule | ClassRing | Callable[[int], Rule | ClassRing]


def check_memory(rule: Made, *, repeats: bool = False) -> None:
    """Raise a `ConformanceError` that names the first promise which a memory rule breaks, if any.

    Args:
        rule: The rule, or what makes one of a capacity, such as its class.
        repeats: Whether a single draw may have the same memory twice.

    >>> from recollect.memory import Reservoir
    >>> check_memory(Reservoir)
    """
    run_all(memory_checks(rule, repeats=repeats))


def memory_checks(rule: Made, *, repeats: bool = False) -> list[Check]:
    """The single checks of `check_memory`, to be run one by one, for instance by pytest.

    >>> from recollect.memory import Reservoir
    >>> [check.name for check in memory_checks(Reservoir(100))]
    ['slots', 'draws', 'repeats', 'sizes', 'pure', 'company', 'plans', 'generator', 'bounded']
    """
    several = [Watched(each) for each in _rules(rule)]
    title = type(several[0].rule).__name__
    every: list[tuple[str, str, Callable[[Watched], None], str]] = [
        ("slots", "an example goes to a slot of its own, or nowhere", _slots, ""),
        ("draws", "only what is kept is drawn", _draws, ""),
        ("repeats", "a draw has no memory twice", _repeats,
         "draws may have a memory twice" if repeats else ""),
        ("sizes", "sizes fit, and steady ones stay", _sizes, ""),
        ("pure", "the same seeds and clock, the same plan", _pure, ""),
        ("company", "a run is planned alike in any company", _company, ""),
        ("plans", "many steps planned at once are as one by one", _plans, ""),
        ("generator", "no global random generator is used", _generator, ""),
        ("bounded", "the rule holds nothing that grows", _bounded, ""),
    ]  # fmt: skip
    return [
        Check(title, n, says, partial(_each, look, several), why) for n, says, look, why in every
    ]


def _rules(rule: Made) -> list[Rule | ClassRing]:
    if callable(rule):
        return [rule(capacity) for capacity in CAPACITIES]
    return [rule]


def _each(look: Callable[[Watched], None], rules: list[Watched]) -> None:
    for rule in rules:
        look(rule)


def _whole(tensor: Tensor, name: str) -> None:
    if tensor.dtype != torch.int64:
        raise Broken(f"{name} are {tensor.dtype}: give whole numbers, torch.int64")


def _slots(watched: Watched) -> None:
    capacity = watched.rule.capacity
    for (_, steps, batch), plan in watched.stretches:
        slots = plan.slots
        _whole(slots, "slots")
        if slots.shape not in ((steps, len(SEEDS), batch), (steps, len(SEEDS), 0)):
            raise Broken(
                f"slots are {list(slots.shape)} for {steps} steps, {len(SEEDS)} runs and batches "
                f"of {batch}: give [steps, K, batch], or [steps, K, 0] if none is ever kept"
            )
        if slots.numel() and not 0 <= int(slots.min()) <= int(slots.max()) <= capacity:
            raise Broken(
                f"slots go from {int(slots.min())} to {int(slots.max())} with a capacity of "
                f"{capacity}: they must be in 0..{capacity}, where {capacity} means not kept"
            )
        for row in slots.flatten(0, 1).tolist():
            kept = [slot for slot in row if slot < capacity]
            if len(set(kept)) < len(kept):
                raise Broken(
                    "two examples of one batch go to the same slot: let the later one stay, by "
                    "recollect.memory.rule.later_stays"
                )


def _draws(watched: Watched) -> None:
    capacity, runs = watched.rule.capacity, len(SEEDS)
    filled = torch.zeros(runs, capacity + 1, dtype=torch.bool)
    for clock, plan in watched.single_steps:
        slots, drawn = plan.slots[0], plan.drawn[0]
        _whole(drawn, "draws")
        size = sum(watched.rule.sizes(clock, DRAWS, REPLAY))
        if drawn.shape != (runs, size):
            raise Broken(f"draws are {list(drawn.shape)}, and sizes ask for {[runs, size]}")
        if drawn.numel() and not 0 <= int(drawn.min()) <= int(drawn.max()) < capacity:
            raise Broken(
                f"it draws slots {int(drawn.min())} to {int(drawn.max())} of a memory of "
                f"{capacity}: they must be below the capacity"
            )
        if slots.shape[1] and not bool(filled.gather(1, drawn).all()):
            raise Broken(
                f"after {clock.seen} examples it draws a slot to which nothing was sent: draw "
                f"from what is filled only"
            )
        filled.scatter_(1, slots, torch.ones_like(slots, dtype=torch.bool))


def _repeats(watched: Watched) -> None:
    for clock, plan in watched.single_steps:
        drawn, counts = plan.drawn[0], plan.counts[0]
        sizes = list(watched.rule.sizes(clock, DRAWS, REPLAY))
        for row, real in zip(drawn, counts, strict=True):
            parts = zip(
                torch.split_with_sizes(row, sizes), torch.split_with_sizes(real, sizes), strict=True
            )
            if any(len(set(part[ok].tolist())) < int(ok.sum()) for part, ok in parts):
                raise Broken(
                    f"a draw has the same memory twice, after {clock.seen} examples: draw without "
                    f"replacement, or pass repeats=True if that is meant"
                )


def _sizes(watched: Watched) -> None:
    rule = watched.rule
    for clock, steps, batch in clocks():
        sizes = rule.sizes(clock, DRAWS, REPLAY)
        if any(not 0 <= size <= rule.capacity for size in sizes):
            raise Broken(f"a draw of {sizes} is asked of a memory of {rule.capacity}")
        later = [rule.sizes(clock.after(step, batch), DRAWS, REPLAY) for step in range(steps)]
        if rule.steady(clock, REPLAY) and any(other != sizes for other in later):
            raise Broken(
                f"sizes are called steady after {clock.seen} examples, and change from {sizes} to "
                f"{later[-1]}: `steady` is about the rest of the task"
            )


def _pure(watched: Watched) -> None:
    first, second = ([watched.plan(SEEDS, *when) for when in clocks()] for _ in range(2))
    for one, other in zip(first, second, strict=True):
        _alike(one, other, "asked again with the same seeds and clock, it plans otherwise")


def _company(watched: Watched) -> None:
    for when, together in watched.stretches:
        for runs in ([1], [2, 0]):
            others = watched.plan(SEEDS[runs], *when)
            part = Plan(*(tensor[:, runs] for tensor in together))
            _alike(part, others, "a run is planned otherwise in other company")


def _plans(watched: Watched) -> None:
    singly = {clock.steps: plan for clock, plan in watched.single_steps}
    for (clock, steps, _), at_once in watched.stretches:
        if watched.rule.steady(clock, REPLAY):
            parts = [singly[clock.steps + step] for step in range(steps)]
            joined = Plan(*(torch.cat(some) for some in zip(*parts, strict=True)))
            _alike(at_once, joined, "many steps planned at once are not those planned one by one")


def _alike(one: Plan, other: Plan, sentence: str) -> None:
    for name, ours, theirs in zip(("slots", "draws"), one, other, strict=False):
        if not torch.equal(ours, theirs):
            raise Broken(
                f"{sentence} ({name}): let it be a function of each run's seed and the clock, by "
                f"recollect.core.random"
            )


def _generator(watched: Watched) -> None:
    with other_generators() as used:
        for when in clocks():
            watched.plan(SEEDS, *when)
        if name := used():
            raise Broken(f"it draws from {name}: hash seed and clock by recollect.core.random.bits")


def _bounded(watched: Watched) -> None:
    with fresh_bytes() as held:
        sizes = []
        for _ in range(2):
            for when in clocks():
                watched.plan(SEEDS, *when)
            sizes.append((held(), things(watched.rule)))
    if any(later > before for before, later in zip(*sizes, strict=True)):
        raise Broken("it holds more with every step: a rule has no state but its capacity")
