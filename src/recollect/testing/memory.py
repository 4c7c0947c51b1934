"""What every memory policy promises, as checks that anybody can run on a policy of their own."""

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

Stretch = tuple[Clock, int, int]  # where it begins, and its steps and batch size
Plan = dict[str, Tensor]  # slots, draws and which of these are valid, each [steps, K, n]
PolicyOrMaker = Policy | Callable[[int], Policy]


def check_memory(policy: PolicyOrMaker, *, repeats: bool = False) -> None:
    """Raise a `ConformanceError` that names the first promise which a memory policy breaks, if any.

    Args:
        policy: The policy, or what makes one of a capacity, such as its class.
        repeats: Whether a single draw may have the same example twice.

    >>> from recollect.memory import Reservoir
    >>> check_memory(Reservoir)
    """
    for check in memory_checks(policy, repeats=repeats):
        check()


def memory_checks(policy: PolicyOrMaker, *, repeats: bool = False) -> list[Check]:
    """The single checks of `check_memory`, to be run one by one, for instance by pytest.

    >>> from recollect.memory import Reservoir
    >>> [check.name for check in memory_checks(Reservoir(100))]  # doctest: +NORMALIZE_WHITESPACE
    ['declarations', 'slots', 'draws', 'repeats', 'sizes', 'labels', 'pure', 'company', 'plans',
     'generator', 'bounded']
    """
    made = [policy(capacity) for capacity in CAPACITIES] if callable(policy) else [policy]
    check = partial(make_check, type(made[0]).__name__)
    several = [(each,) for each in made]
    evaluated = [(partial(_evaluate, each),) for each in made]
    allowed = "draws may have an example twice" if repeats else ""
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
    """It has a capacity, and says whether it uses labels."""
    if not isinstance(policy.capacity, int) or policy.capacity < 1:
        raise Broken(f"its capacity is {policy.capacity!r}: it must be a whole number above 0")
    if not isinstance(policy.uses_labels, bool):
        raise Broken(f"`uses_labels` is {policy.uses_labels!r}: it must be True or False")


def _slots(policy: Policy) -> None:
    """An example goes to a slot of its own, or nowhere."""
    for (_, steps, batch), plan in _planned(policy):
        shape = list(plan["slots"].shape)
        if shape not in ([steps, len(SEEDS), batch], [steps, len(SEEDS), 0]):
            raise Broken(
                f"slots are {shape} for {steps} steps, {len(SEEDS)} runs and batches of {batch}: "
                f"give [steps, K, batch], or [steps, K, 0] if nothing is stored on arrival"
            )
        if fault := slots_fault(plan["slots"], policy.capacity):
            raise Broken(fault)


def slots_fault(slots: Tensor, capacity: int) -> str:
    """What is wrong with the slots of batches, `[..., B]`; nothing if they are fine."""
    if slots.dtype != torch.int64:
        return f"slots are {slots.dtype}: give whole numbers, torch.int64"
    if slots.numel() and not 0 <= int(slots.min()) <= int(slots.max()) <= capacity:
        return (
            f"slots go from {int(slots.min())} to {int(slots.max())} with a capacity of "
            f"{capacity}: they must be in 0..{capacity}, where {capacity} means not stored"
        )
    for row in slots.flatten(0, -2).tolist():
        stored = [slot for slot in row if slot < capacity]
        if len(set(stored)) < len(stored):
            return (
                "two examples of one batch go to the same slot: let the later one stay, by "
                "recollect.memory.last_in_slot"
            )
    return ""


def _draws(policy: Policy) -> None:
    """Only what is stored is drawn."""
    filled = torch.zeros(len(SEEDS), policy.capacity + 1, dtype=torch.bool)
    for (clock, _, _), plan in _planned(policy, singly=True):
        slots, drawn, valid = (tensor[0] for tensor in plan.values())
        if drawn.dtype != torch.int64 or valid.dtype != torch.bool:
            raise Broken(
                f"draws are {drawn.dtype} and `valid` is {valid.dtype}: give slots as torch.int64, "
                f"and which of them are real as torch.bool, or None"
            )
        asked = (len(SEEDS), sum(policy.sizes(clock, DRAWS, REPLAY)))
        if not drawn.shape == valid.shape == asked:
            raise Broken(f"draws are {list(drawn.shape)}, and sizes ask for {list(asked)}")
        if drawn.numel() and not 0 <= int(drawn.min()) <= int(drawn.max()) < policy.capacity:
            raise Broken(
                f"it draws slots {int(drawn.min())} to {int(drawn.max())} of a memory of "
                f"{policy.capacity}: they must be below the capacity"
            )
        if slots.shape[1] and not bool((filled.gather(1, drawn) | ~valid).all()):
            raise Broken(
                f"after {clock.seen} examples it draws a slot where nothing is stored: draw from "
                f"what is filled only"
            )
        filled.scatter_(1, slots, torch.ones_like(slots, dtype=torch.bool))


def _repeats(policy: Policy) -> None:
    """A draw has no example twice."""
    for (clock, _, _), plan in _planned(policy, singly=True):
        sizes = policy.sizes(clock, DRAWS, REPLAY)
        drawn = torch.where(plan["valid"], plan["draws"], -1)
        for part in drawn[0].split(sizes, 1) if sizes else ():  # type: ignore[no-untyped-call]
            for row in part.tolist():
                real = [slot for slot in row if slot >= 0]
                if len(set(real)) < len(real):
                    raise Broken(
                        f"a draw has the same example twice, after {clock.seen} examples: draw "
                        f"without replacement, or pass repeats=True if that is meant"
                    )


def _sizes(policy: Policy) -> None:
    """The sizes of draws fit the memory, and steady ones stay."""
    for clock, steps, batch in _stretches():
        sizes = policy.sizes(clock, DRAWS, REPLAY)
        if any(not 0 <= size <= policy.capacity for size in sizes):
            raise Broken(f"a draw of {sizes} is asked of a memory of {policy.capacity}")
        later = [policy.sizes(clock.after(step, batch), DRAWS, REPLAY) for step in range(steps)]
        if policy.steady(clock, REPLAY) and any(other != sizes for other in later):
            raise Broken(
                f"sizes are called steady after {clock.seen} examples, and change from {sizes} to "
                f"{later[-1]}: `steady` is about the rest of the task"
            )


def _labels_matter(policy: Policy) -> None:
    """Plans depend on labels, if it declares so."""
    others = _evaluate(policy, SEEDS, Purpose.SPLIT)
    if not compare.difference(_evaluate(policy, SEEDS), others):
        raise Broken(
            "it declares `uses_labels`, and plans the same with other labels: set it to False, and "
            "steps can be planned before their labels are known"
        )


def _plans(policy: Policy) -> None:
    """Many steps planned at once are those planned one by one."""
    singly = {clock.steps: plan for (clock, _, _), plan in _planned(policy, singly=True)}
    for (clock, steps, _), at_once in _planned(policy):
        if policy.steady(clock, REPLAY):
            parts = [singly[clock.steps + step] for step in range(steps)]
            joined = {name: torch.cat([part[name] for part in parts]) for name in at_once}
            if found := compare.difference(at_once, joined):
                raise Broken(
                    f"many steps planned at once are not those planned one by one: {found}; "
                    f"compute with arrivals.numbers and the clock, step by step"
                )


def _bounded(policy: Policy) -> None:
    """The policy itself stores nothing that grows."""
    with new_tensor_bytes() as measure:
        sizes = []
        for _ in range(2):
            _evaluate(policy, SEEDS)
            sizes.append((measure(), container_sizes(policy)))
    if any(later > before for before, later in zip(*sizes, strict=True)):
        raise Broken("it stores more with every step: a policy has no state but its capacity")


def _stretches() -> Iterator[Stretch]:
    """Three tasks, in stretches of several steps and batches of several sizes."""
    clock = Clock(tasks=len(TASKS))
    for task in TASKS:
        for steps, batch in task:
            yield clock, steps, batch
            clock = clock.after(steps, batch)
        clock = clock.next_task(clock.seen_now)


def _planned(policy: Policy, singly: bool = False) -> list[tuple[Stretch, Plan]]:
    """Every stretch or every single step, and what the policy plans for it."""
    planned = list(_stretches())
    if singly:
        planned = [(c.after(s, batch), 1, batch) for c, n, batch in planned for s in range(n)]
    return [(stretch, _plan(policy, SEEDS, stretch)) for stretch in planned]


def _evaluate(policy: Policy, seeds: Tensor, purpose: Purpose = Purpose.GROUP) -> Plan:
    """All that a policy plans for some runs, each tensor `[K, ...]`."""
    return {
        f"{name} after {stretch[0].seen} examples": tensor.transpose(0, 1)
        for stretch in _stretches()
        for name, tensor in _plan(policy, seeds, stretch, purpose).items()
    }


def _plan(
    policy: Policy, seeds: Tensor, stretch: Stretch, purpose: Purpose = Purpose.GROUP
) -> Plan:
    """What a policy plans; labels are a function of the seed and the purpose."""
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
    """The labels in the slots `[K, capacity]` after all steps of the stretches before a clock."""
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
