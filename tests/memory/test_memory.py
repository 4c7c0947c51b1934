"""The memory: what is written is read, nothing else changes, and the spare row stays hidden."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from recollect.memory import Memory

FIELDS = {
    "x": ((2, 3), torch.uint8),
    "y": ((), torch.int64),
    "logits": ((4,), torch.float64),
}


def some(runs: int, n: int, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "x": torch.randint(0, 256, (runs, n, 2, 3), dtype=torch.uint8, generator=generator),
        "y": torch.randint(1, 9, (runs, n), generator=generator),
        "logits": torch.randn(runs, n, 4, dtype=torch.float64, generator=generator),
    }


@given(st.integers(1, 4), st.integers(1, 7), st.data())
def test_what_is_written_is_read(runs: int, capacity: int, data: st.DataObject) -> None:
    """Against a dictionary for each run, over a few writes to distinct slots."""
    memory = Memory(runs, capacity, FIELDS)
    kept: dict[tuple[int, int], tuple[int, int]] = {}
    writes = []
    for number in range(data.draw(st.integers(1, 4))):
        n = data.draw(st.integers(1, capacity))
        places = st.permutations(range(capacity + 2))
        slots = torch.tensor([data.draw(places)[:n] for _ in range(runs)]).clamp(max=capacity)
        writes.append(some(runs, n, number))
        memory.write(memory.rows(slots), writes[-1])
        for run in range(runs):
            for place, slot in enumerate(slots[run].tolist()):
                if slot < capacity:
                    kept[run, slot] = (number, place)
    everywhere = torch.arange(capacity).expand(runs, -1)
    read, fields = memory.read(memory.rows(everywhere)), memory.fields()
    for name, (shape, dtype) in FIELDS.items():
        assert fields[name].shape == (runs, capacity, *shape)
        assert fields[name].dtype == read[name].dtype == dtype
        assert torch.equal(read[name], fields[name])
        for run in range(runs):
            for slot in range(capacity):
                if (run, slot) in kept:
                    number, place = kept[run, slot]
                    assert torch.equal(fields[name][run, slot], writes[number][name][run, place])
                else:
                    assert not fields[name][run, slot].any()


def test_what_is_not_stored_is_nowhere_to_be_seen() -> None:
    memory = Memory(2, 3, FIELDS)
    memory.write(memory.rows(torch.tensor([[3, 3], [3, 4]])), some(2, 2))
    for field in memory.fields().values():
        assert not field.any()


def test_rows_take_any_number_of_leading_axes() -> None:
    memory = Memory(2, 3, FIELDS)
    slots = torch.tensor([[[0, 2], [1, 3]], [[9, 1], [0, 0]]])
    assert memory.rows(slots).tolist() == [[[0, 2], [4, 6]], [[6, 1], [3, 3]]]


def test_reading_copies() -> None:
    memory = Memory(1, 2, FIELDS)
    read = memory.read(memory.rows(torch.tensor([[0, 1]])))
    memory.write(memory.rows(torch.tensor([[0, 1]])), some(1, 2))
    assert not read.y.any()


def test_reading_nothing_gives_fields_without_examples() -> None:
    read = Memory(2, 3, FIELDS).read(torch.zeros(2, 0, dtype=torch.int64))
    assert {name: tuple(t.shape) for name, t in read.items()} == {
        "x": (2, 0, 2, 3), "y": (2, 0), "logits": (2, 0, 4),
    }  # fmt: skip


def test_bytes_are_those_of_one_runs_examples() -> None:
    for runs in (1, 5):
        assert Memory(runs, 10, FIELDS).bytes_per_run == 10 * (2 * 3 * 1 + 8 + 4 * 8)
    assert Memory(2, 0, {}).bytes_per_run == 0


def test_a_narrow_part_is_of_every_run() -> None:
    memory = Memory(2, 4, {"y": ((), torch.int64)})
    memory.write(memory.rows(torch.arange(4).expand(2, 4)), {"y": torch.arange(8).view(2, 4)})
    part = memory.fields().narrow(1, 2)
    assert part.y.tolist() == [[1, 2], [5, 6]]


def test_a_field_that_is_not_stored_is_named_in_the_error() -> None:
    with pytest.raises(AttributeError, match="the memory stores x, y, logits; it has no field 'z'"):
        _ = Memory(1, 1, FIELDS).fields().z
