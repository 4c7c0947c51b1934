"""Conformance checks for memory policies, including your own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from recollect.core.random import Purpose, below, bits
from recollect.memory import Arrivals, Clock, Policy
from recollect.testing import compare
from recollect.testing.check import Broken, Check, make_check
from recollect.testing.compare import SEEDS, container_sizes, new_tensor_bytes

CAPACITIES = (3, 13)
CLASSES = 3
TASKS = (((3, 4), (1, 3)), ((2, 2), (2, 7)), ((3, 4), (1, 1)))  # (steps, batch), task by task
DRAWS, REPLAY = 2, 5

Stretch = tuple[Clock, int, int]  # the clock at its start, its number of steps and batch size
Plan = dict[str, Tensor]  # slots, draws and the mask of valid draws, each [steps, K, n]
PolicyOrMaker = Policy | Callable[[int], Policy]


def check_memory(policy: PolicyOrMaker, *, repeats: bool = False) -> None:
    """Check a memory policy; raise a `ConformanceError` for the first promise that it breaks.

    Args:
        policy: The policy, or a function of the capacity that creates it, such as its class.
        repeats: Whether a single draw may contain the same example twice.

    >>> from recollect.memory import Reservoir
    >>> check_memory(Reservoir)
    """
    for check in memory_checks(policy, repeats=repeats):
        check()


def memory_checks(policy: PolicyOrMaker, *, repeats: bool = False) -> list[Check]:
    """List the checks of `check_memory`, to run them one by one, for example with pytest.

    >>> from recollect.memory import Reservoir
    >>> [check.name for check in memory_checks(Reservoir(100))]  # doctest: +NORMALIZE_WHITESPACE
    ['declarations', 'slots', 'draws', 'repeats', 'sizes', 'labels', 'pure', 'company', 'plans',
     'generator', 'bounded']
    """
    made = [policy(capacity) for capacity in CAPACITIES] if callable(policy) else [policy]
    check = partial(make_check, type(made[0]).__name__)
    several = [(each,) for each in made]
    evaluated = [(partial(_evaluate, each),) for each in made]
    allowed = "draws may contain an example twice" if repeats else ""
    unlabelled = "" if made[0].uses_labels else "it does not use labels"
    return [
        check("declarations", _declarations, *several),
        check("slots", _slots, *several),
        check("draws", _draws, *several),
        check("repeats", _repeats, *several, skipped=allowed),
        check("sizes", _sizes, *several),
        check("labels", _labels_matter, *several, skipped=unlabelled),
        check("pure", compare.pure, *evaluated),
        check("company", compare.company, *evaluated),
        check("plans", _plans, *several),
        check("generator", compare.generator, *evaluated),
        check("bounded", _bounded, *several),
    ]


def _declarations(policy: Policy) -> None:
    """It has a capacity, and declares whether it uses labels."""
    if not isinstance(policy.capacity, int) or policy.capacity < 1:
        raise Broken(f"its capacity is {policy.capacity!r}: it must be a whole number above 0")
    if not isinstance(policy.uses_labels, bool):
        raise Broken(f"`uses_labels` is {policy.uses_labels!r}: it must be True or False")


def _slots(policy: Policy) -> None:
    """Every stored example of a batch has a slot of its own."""
    for (_, steps, batch), plan in _planned(policy):
        shape = list(plan["slots"].shape)
        if shape not in ([steps, len(SEEDS), batch], [steps, len(SEEDS), 0]):
            raise Broken(
                f"slots have the shape {shape} for {steps} steps, {len(SEEDS)} runs and batches of "
                f"{batch}: return [steps, K, batch], or [steps, K, 0] if incoming examples are not "
                f"stored"
            )
        if fault := slots_fault(plan["slots"], policy.capacity):
            raise Broken(fault)


def slots_fault(slots: Tensor, capacity: int) -> str:
    """Describe what is wrong with the slots of batches, `[..., B]`; empty if they are valid."""
    if slots.dtype != torch.int64:
        return f"slots are {slots.dtype}: they must be torch.int64"
    if slots.numel() and not 0 <= int(slots.min()) <= int(slots.max()) <= capacity:
        return (
            f"slots go from {int(slots.min())} to {int(slots.max())} with a capacity of "
            f"{capacity}: they must be in 0..{capacity}, where {capacity} means not stored"
        )
    for row in slots.flatten(0, -2).tolist():
        stored = [slot for slot in row if slot < capacity]
        if len(set(stored)) < len(stored):
            return (
                "two examples of a batch have the same slot: store the later one only, with "
                "recollect.memory.last_in_slot"
            )
    return ""


def _draws(policy: Policy) -> None:
    """Draws have stored examples only."""
    filled = torch.zeros(len(SEEDS), policy.capacity + 1, dtype=torch.bool)
    for (clock, _, _), plan in _planned(policy, singly=True):
        slots, drawn, valid = (tensor[0] for tensor in plan.values())
        if drawn.dtype != torch.int64 or valid.dtype != torch.bool:
            raise Broken(
                f"draws are {drawn.dtype} and `valid` is {valid.dtype}: return slots as "
                f"torch.int64, and the mask `valid` as torch.bool or None"
            )
        asked = (len(SEEDS), sum(policy.sizes(clock, DRAWS, REPLAY)))
        if not drawn.shape == valid.shape == asked:
            raise Broken(
                f"draws have the shape {list(drawn.shape)}, but `sizes` requires {list(asked)}"
            )
        if drawn.numel() and not 0 <= int(drawn.min()) <= int(drawn.max()) < policy.capacity:
            raise Broken(
                f"it draws slots {int(drawn.min())} to {int(drawn.max())} of a memory with "
                f"{policy.capacity} slots: they must be at least 0 and below the capacity"
            )
        if slots.shape[1] and not bool((filled.gather(1, drawn) | ~valid).all()):
            raise Broken(
                f"after {clock.seen} examples it draws an empty slot: draw from filled slots only"
            )
        filled.scatter_(1, slots, torch.ones_like(slots, dtype=torch.bool))


def _repeats(policy: Policy) -> None:
    """A draw does not contain an example twice."""
    for (clock, _, _), plan in _planned(policy, singly=True):
        sizes = policy.sizes(clock, DRAWS, REPLAY)
        drawn = torch.where(plan["valid"], plan["draws"], -1)
        for part in drawn[0].split(sizes, 1) if sizes else ():  # type: ignore[no-untyped-call]
            for row in part.tolist():
                real = [slot for slot in row if slot >= 0]
                if len(set(real)) < len(real):
                    raise Broken(
                        f"a draw contains the same example twice, after {clock.seen} examples: "
                        f"draw without replacement, or pass repeats=True if this is intended"
                    )


def _sizes(policy: Policy) -> None:
    """The sizes of draws fit the memory, and do not change if they are steady."""
    for clock, steps, batch in _stretches():
        sizes = policy.sizes(clock, DRAWS, REPLAY)
        if any(not 0 <= size <= policy.capacity for size in sizes):
            raise Broken(
                f"`sizes` returns {sizes} for a memory of {policy.capacity}: sizes must be at "
                f"least 0 and at most the capacity"
            )
        later = [policy.sizes(clock.after(step, batch), DRAWS, REPLAY) for step in range(steps)]
        if policy.steady(clock, REPLAY) and any(other != sizes for other in later):
            raise Broken(
                f"`steady` is true after {clock.seen} examples, but sizes change from {sizes} to "
                f"{later[-1]}: return True only if they stay the same for the rest of the task"
            )


def _labels_matter(policy: Policy) -> None:
    """Slots or draws depend on labels, if it declares so."""
    others = _evaluate(policy, SEEDS, Purpose.SPLIT)
    if not compare.difference(_evaluate(policy, SEEDS), others):
        raise Broken(
            "it declares `uses_labels`, but its slots and draws do not depend on labels: set it to "
            "False, so that steps can be planned before their labels are known"
        )


def _plans(policy: Policy) -> None:
    """Planning many steps at once gives the same result as planning them one by one."""
    singly = {clock.steps: plan for (clock, _, _), plan in _planned(policy, singly=True)}
    for (clock, steps, _), at_once in _planned(policy):
        if policy.steady(clock, REPLAY):
            parts = [singly[clock.steps + step] for step in range(steps)]
            joined = {name: torch.cat([part[name] for part in parts]) for name in at_once}
            if found := compare.difference(at_once, joined):
                raise Broken(
                    f"many steps planned at once differ from steps planned one by one: {found}; "
                    f"make each step a function of arrivals.numbers and the clock"
                )


def _bounded(policy: Policy) -> None:
    """The policy itself does not grow."""
    with new_tensor_bytes() as measure:
        sizes = []
        for _ in range(2):
            _evaluate(policy, SEEDS)
            sizes.append((measure(), container_sizes(policy)))
    if any(later > before for before, later in zip(*sizes, strict=True)):
        raise Broken("it stores more with every step: a policy must not have mutable state")


def _stretches() -> Iterator[Stretch]:
    """Yield three tasks, in stretches with several numbers of steps and batch sizes."""
    clock = Clock(tasks=len(TASKS))
    for task in TASKS:
        for steps, batch in task:
            yield clock, steps, batch
            clock = clock.after(steps, batch)
        clock = clock.next_task(clock.seen_now)


def _planned(policy: Policy, singly: bool = False) -> list[tuple[Stretch, Plan]]:
    """List every stretch, or every single step, with the policy's plan for it."""
    planned = list(_stretches())
    if singly:
        planned = [(c.after(s, batch), 1, batch) for c, n, batch in planned for s in range(n)]
    return [(stretch, _plan(policy, SEEDS, stretch)) for stretch in planned]


def _evaluate(policy: Policy, seeds: Tensor, purpose: Purpose = Purpose.GROUP) -> Plan:
    """The plans of a policy for all stretches, each tensor `[K, ...]`."""
    return {
        f"{name} after {stretch[0].seen} examples": tensor.transpose(0, 1)
        for stretch in _stretches()
        for name, tensor in _plan(policy, seeds, stretch, purpose).items()
    }


def _plan(
    policy: Policy, seeds: Tensor, stretch: Stretch, purpose: Purpose = Purpose.GROUP
) -> Plan:
    """The plan of a policy for a stretch; labels are a function of the seed and the purpose."""
    clock, steps, batch = stretch
    labels = below(bits(seeds[:, None], purpose, torch.arange(clock.seen + steps * batch)), CLASSES)
    counts = torch.stack([row.bincount(minlength=CLASSES) for row in labels[:, : clock.seen]])
    coming = labels[:, clock.seen :].view(-1, steps, batch).transpose(0, 1)
    known = stored = None
    if policy.uses_labels:
        known, stored = (coming, counts), _stored(policy, seeds, labels, clock)
    arrivals = Arrivals(seeds, clock, steps, batch, known, stored)
    slots, valid = policy.draws(arrivals, policy.sizes(clock, DRAWS, REPLAY))
    if valid is None:
        valid = torch.ones_like(slots, dtype=torch.bool)
    return {"slots": policy.slots(arrivals), "draws": slots, "valid": valid}


def _stored(policy: Policy, seeds: Tensor, labels: Tensor, until: Clock) -> Tensor:
    """The labels in the slots `[K, capacity]` after all steps before a clock."""
    memory = labels.new_zeros(len(seeds), policy.capacity + 1)
    counts = labels.new_zeros(len(seeds), CLASSES)
    for clock, steps, batch in _stretches():
        for step in range(steps):
            now = clock.after(step, batch)
            if now.seen >= until.seen:
                break
            coming = labels[:, now.seen : now.seen + batch]
            known, stored = (coming[None], counts), memory[:, :-1]
            slots = policy.slots(Arrivals(seeds, now, 1, batch, known, stored))[0]
            if slots.shape[1]:
                memory.scatter_(1, slots, coming)
            counts = counts.scatter_add(1, coming, torch.ones_like(coming))
    return memory[:, :-1]
