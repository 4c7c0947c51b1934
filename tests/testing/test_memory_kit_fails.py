"""Every check of a memory policy can fail, and says why: one broken policy for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from recollect.memory import Arrivals, Clock, Drawn, Policy, Reservoir
from recollect.testing import ConformanceError, check_memory, memory_checks

CASES: list[tuple[str, str, type[Reservoir]]] = []


def breaks(check: str, sentence: str) -> Any:
    """Notes which check a class must fail, and a part of what is to be said of it."""

    def note(kind: type[Reservoir]) -> type[Reservoir]:
        CASES.append((check, sentence, kind))
        return kind

    return note


@dataclass(frozen=True)
class Changed(Reservoir):
    """A reservoir whose slots or draws are put through a function."""

    def slots(self, arrivals: Arrivals) -> Tensor:
        return self.sent(super().slots(arrivals))

    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        return Drawn(self.drawn(super().draws(arrivals, sizes).slots))

    def sent(self, slots: Tensor) -> Tensor:
        return slots

    def drawn(self, slots: Tensor) -> Tensor:
        return slots


@breaks("declarations", "its capacity is 6.5: it must be a whole number above 0")
@dataclass(frozen=True)
class Halved(Changed):
    def __post_init__(self) -> None:
        object.__setattr__(self, "capacity", self.capacity / 2)


@breaks("declarations", "`uses_labels` is None: it must be True or False")
class Undecided(Changed):
    uses_labels: ClassVar[Any] = None


@breaks("labels", "it declares `uses_labels`, but its slots and draws do not depend on labels")
class Curious(Changed):
    uses_labels: ClassVar[bool] = True


@breaks("slots", "with a capacity of 13: they must be in 0..13, where 13 means not stored")
class Overfull(Changed):
    def sent(self, slots: Tensor) -> Tensor:
        return slots + 1


@breaks("slots", "two examples of a batch have the same slot")
class Crowded(Changed):
    def sent(self, slots: Tensor) -> Tensor:
        return slots // 2


@breaks("slots", "return [steps, K, batch]")
class Short(Changed):
    def sent(self, slots: Tensor) -> Tensor:
        return slots[..., 1:] if slots.shape[2] > 2 else slots


@breaks("draws", "to 13 of a memory with 13 slots: they must be at least 0 and below")
class Reaching(Changed):
    def drawn(self, slots: Tensor) -> Tensor:
        return slots + slots.eq(12)


@breaks("draws", "it draws an empty slot")
class Hopeful(Changed):
    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        full = replace(arrivals.clock, seen=10 * self.capacity)
        return super().draws(replace(arrivals, clock=full), sizes)


@breaks("draws", "`valid` is torch.int64: return slots as torch.int64, and the mask `valid` as")
class Counting(Changed):
    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        drawn = super().draws(arrivals, sizes).slots
        return Drawn(drawn, torch.ones_like(drawn))


@breaks("slots", "a memory policy that uses labels, counts or stored must set uses_labels = True")
class Peeking(Changed):
    def draws(self, arrivals: Arrivals, sizes: tuple[int, ...]) -> Drawn:
        return Drawn(super().draws(arrivals, sizes).slots + 0 * arrivals.counts.sum())


@breaks("repeats", "a draw contains the same example twice, after 4 examples")
class Repeating(Changed):
    def drawn(self, slots: Tensor) -> Tensor:
        return torch.zeros_like(slots)


@breaks("sizes", "`steady` is true after 0 examples, but sizes change from (0, 0)")
class Settled(Changed):
    def steady(self, clock: Clock, replay: int) -> bool:
        return True


CALLS = [0]


@breaks("pure", "called again with the same seeds, its result differs: draws after")
class Restless(Changed):
    def drawn(self, slots: Tensor) -> Tensor:
        CALLS[0] += 1
        each = slots.unflatten(2, (2, slots.shape[2] // 2))  # type: ignore[no-untyped-call]
        return torch.roll(each, CALLS[0], 3).flatten(2)


@breaks("company", "a run depends on other runs: draws after")
class Dragged(Changed):
    def drawn(self, slots: Tensor) -> Tensor:
        return slots[:, :1].expand_as(slots)


@breaks("plans", "many steps planned at once differ from steps planned one by one: slots differs")
class Hasty(Changed):
    def sent(self, slots: Tensor) -> Tensor:
        return slots if len(slots) == 1 else slots.flip(2)


@breaks("generator", "it draws from torch's global generator")
class Dicing(Changed):
    def drawn(self, slots: Tensor) -> Tensor:
        torch.rand(1)
        return slots


@breaks("bounded", "it stores more with every step")
class Hoarding(Changed):
    seen: ClassVar[list[Tensor]] = []

    def drawn(self, slots: Tensor) -> Tensor:
        self.seen.append(slots.clone())
        return slots


@breaks("bounded", "it stores more with every step")
class Noting(Changed):
    """Stores fewer bytes of tensors as time goes by, and more of other things."""

    notes: ClassVar[list[int]] = []
    spare: ClassVar[dict[str, Tensor]] = {}

    def drawn(self, slots: Tensor) -> Tensor:
        self.notes.append(1)
        self.spare["one"] = torch.zeros(10**6 // len(self.notes))
        return slots


@pytest.mark.parametrize(
    ("check", "sentence", "kind"), CASES, ids=[kind.__name__ for _, _, kind in CASES]
)
def test_a_broken_promise_is_named(check: str, sentence: str, kind: type[Reservoir]) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_memory(kind(13))
    error = caught.value
    assert (error.subject, error.check) == (kind.__name__, check), str(error)
    assert sentence in error.sentence


def test_every_check_has_a_policy_that_breaks_it() -> None:
    checks = memory_checks(Reservoir(9))
    assert {check.name for check in checks} == {check for check, _, _ in CASES}


def test_draws_that_may_repeat_are_not_asked_for_that_promise() -> None:
    repeating: Policy = Repeating(13)
    check_memory(repeating, repeats=True)
    skipped = [each.name for each in memory_checks(Repeating, repeats=True) if each.skipped]
    assert skipped == ["repeats", "labels"]
