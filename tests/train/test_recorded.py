"""Recordings of a function: which shapes have one, and what a call returns."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from recollect.errors import SlowerWarning
from recollect.train import recorded
from recollect.train.execution import WARM_UP, say_slower
from recollect.train.fixed_inputs import Inputs
from recollect.train.guard import SURE, Guard
from recollect.train.recorded import Frequent, Recorded

CPU = torch.device("cpu")


class Sums:
    """A function that adds what it is given to a total, and notes the tensors that it was given."""

    def __init__(self) -> None:
        self.total = torch.zeros(())
        self.given: list[Tensor] = []
        self.followed: list[tuple[Tensor, Tensor]] = []

    def __call__(self, inputs: Inputs) -> dict[str, Tensor]:
        found = list(inputs.values())
        self.given.append(found[0])
        self.total += sum(each.sum() for each in found)
        return {"total": self.total, "twice": 2 * found[0]}

    def then(self, inputs: Inputs, found: dict[str, Tensor]) -> None:
        self.followed.append((inputs["x"], found["twice"]))


def made(function: Sums) -> Recorded:
    say_slower.cache_clear()
    return Recorded(function, function.then, nn.Linear(1, 1), CPU, "Sums", "sum")


def test_after_the_first_calls_a_shape_is_recorded_on_tensors_of_its_own() -> None:
    function = Sums()
    calls = made(function)
    expected = 0.0
    for number in range(10):
        x = torch.full((3,), float(number))
        found = calls("kind", {"x": x, "more": x.double()})
        expected += 6.0 * number
        assert found["total"].item() == expected == function.total.item()
        assert found["twice"].tolist() == [2.0 * number] * 3
    theirs = {tensor.data_ptr() for tensor in function.given[WARM_UP:]}
    assert len(theirs) == 1
    assert len(calls) == 1


def test_what_a_recorded_call_returned_is_overwritten_by_the_next() -> None:
    calls = made(Sums())
    kept = [calls("kind", {"x": torch.full((2,), float(n))})["twice"] for n in range(8)]
    assert [each.tolist() for each in kept[:WARM_UP]] == [[0.0] * 2, [2.0] * 2, [4.0] * 2]
    assert all(each is kept[-1] for each in kept[WARM_UP:])


def test_what_follows_a_call_has_its_inputs_and_outputs_once() -> None:
    function = Sums()
    calls = made(function)
    for number in range(8):
        found = calls("kind", {"x": torch.full((2,), float(number))})
        calls.follow()
        calls.follow()
        assert len(function.followed) == number + 1
        x, twice = function.followed[-1]
        assert x is function.given[-1]
        assert x.tolist() == [number] * 2
        assert twice is found["twice"]
    assert calls("kind", {"x": torch.ones(2)})["twice"].tolist() == [2.0, 2.0]
    assert len(function.followed) == 8, "no call has to be followed"


def test_kinds_shapes_types_and_strides_have_recordings_each() -> None:
    calls = made(Sums())
    square = torch.ones(3, 3)
    inputs = [torch.ones(2), torch.ones(3), torch.ones(2, dtype=torch.int64), square.t()[:2].t()]
    for _ in range(WARM_UP + 1):
        for x in inputs:
            for kind in ("a", "b"):
                calls(kind, {"x": x})
    assert len(calls) == 8


def test_the_one_that_was_used_longest_ago_goes_and_must_occur_twice_as_often() -> None:
    calls = made(Sums())

    def call(size: int, times: int = 1) -> None:
        for _ in range(times):
            calls("kind", {"x": torch.ones(size)})

    def has(size: int) -> bool:
        return any(key[1][1] == (size,) for key in calls._recordings)  # type: ignore[index]

    for size in range(recorded.MOST):
        call(size + 1, WARM_UP + 1)
    assert len(calls) == recorded.MOST
    call(1)
    call(100, WARM_UP + 1)
    assert len(calls) == recorded.MOST
    assert has(1)
    assert not has(2)
    call(2, 2 * WARM_UP)
    assert not has(2)
    call(2)
    assert has(2)
    assert not has(3)


def test_sizes_that_come_in_turn_are_recorded_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many sizes as recordings: a simple cache would record at almost every call."""
    made_at: list[int] = []
    original = recorded._Recording.__init__

    def counted(self: recorded._Recording, *given: object) -> None:
        made_at.append(1)
        original(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(recorded._Recording, "__init__", counted)
    calls = made(Sums())
    rounds, sizes = 200, 2 * recorded.MOST
    for _ in range(rounds):
        for size in range(1, sizes + 1):
            calls("kind", {"x": torch.ones(size)})
    assert len(made_at) < rounds * sizes / 20


def test_large_batches_are_taken_as_they_come() -> None:
    calls = made(Sums())
    for _ in range(6):
        calls("kind", {"x": torch.ones(1, recorded.LARGEST + 1)})
    assert len(calls) == 0
    for _ in range(6):
        calls("kind", {"x": torch.ones(1, recorded.LARGEST)})
    assert len(calls) == 1


def test_a_failure_is_said_once_and_calls_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(recorded._Recording, "__init__", refuse)
    function = Sums()
    calls = made(function)
    for _ in range(WARM_UP):
        calls("kind", {"x": torch.ones(2)})
    with pytest.warns(SlowerWarning, match="Sums: a sum could not be recorded, .*out of memory"):
        assert calls("kind", {"x": torch.ones(2)})["total"] == 2 * (WARM_UP + 1)
    assert not calls.possible
    for _ in range(5):
        calls("kind", {"x": torch.ones(2)})
    assert function.total == 2 * (WARM_UP + 6)


def test_wiping_leaves_nothing_and_changes_no_later_call() -> None:
    function = Sums()
    calls = made(function)
    for _ in range(6):
        found = calls("kind", {"x": torch.full((2,), 7.0)})
    calls.wipe()
    assert not any(tensor.any() for tensor in (function.given[-1], *found.values()))
    assert function.total == 6 * 14, "what it changes in place is not its to wipe"
    assert calls("kind", {"x": torch.full((2,), 7.0)})["total"] == 7 * 14


def test_only_few_sizes_are_frequent() -> None:
    frequent = Frequent()
    for size in range(1, 8):
        assert [frequent(size) for _ in range(12)] == [False] * 10 + [size <= 4] * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("value", [1.0, -60_000.0, float("nan"), float("inf"), -float("inf")])
def test_numbers_below_the_bound_mean_that_all_is_finite(dtype: torch.dtype, value: float) -> None:
    from recollect.memory import Memory

    tensors = [torch.zeros(5, dtype=dtype), torch.zeros(3), torch.zeros(2, dtype=torch.int64)]
    guard = Guard(tensors, Memory(1, 0, {}), None)
    guard.note()
    tensors[0][3] = value
    loss = torch.tensor([0.25])
    first, *sums = guard.numbers(loss).tolist()
    assert first == 0.25
    assert all(each < SURE for each in sums) == guard.finite(loss) == (abs(value) < 1e30)
