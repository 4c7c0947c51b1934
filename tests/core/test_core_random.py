"""Random words: uniform, independent of each other, and the same in any company."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from recollect.core.random import Purpose, below, bits

SMALL = 1e-4  # a chance below this is no accident; nothing here changes from one day to the next
INT64 = st.integers(-(2**63), 2**63 - 1)
GRID = (torch.arange(256)[:, None], torch.arange(256)[None, :])


def words(axis: str) -> tuple[Tensor, Tensor]:
    """Sixty-five thousand words, and those that differ only by the next seed, step, ..."""
    a, b = GRID
    zero = torch.tensor(0)
    if axis == "seed":
        return bits(a, Purpose.DRAW, b, 0), bits(a + 1, Purpose.DRAW, b, 0)
    if axis == "purpose":
        return bits(a, Purpose.ORDER, b, 0), bits(a, Purpose.SLOT, b, 0)
    if axis == "step":
        return bits(a, Purpose.DRAW, b, 0), bits(a, Purpose.DRAW, b + 1, 0)
    if axis == "index":
        return bits(a, Purpose.DRAW, 5, b), bits(a, Purpose.DRAW, 5, b + 1)
    if axis == "exchange of step and index":
        return bits(zero, Purpose.DRAW, a, b + 256), bits(zero, Purpose.DRAW, b + 256, a)
    assert axis == "another word"
    return bits(a, Purpose.DRAW, b), bits(a, Purpose.DRAW, b, 0)


AXES = ["seed", "purpose", "step", "index", "exchange of step and index", "another word"]


@pytest.mark.parametrize("byte", range(8))
def test_every_byte_is_uniform(byte: int, chance: Callable[..., float]) -> None:
    for axis in ("seed", "index"):
        values = (words(axis)[0] >> (8 * byte)) & 0xFF
        assert chance(values.flatten().bincount(minlength=256)) > SMALL


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("nibble", [0, 5, 8, 15])
def test_words_of_neighbours_are_independent(
    axis: str, nibble: int, chance: Callable[..., float]
) -> None:
    first, second = (((w >> (4 * nibble)) & 0xF).flatten() for w in words(axis))
    assert chance((first * 16 + second).bincount(minlength=256)) > SMALL


@pytest.mark.parametrize("axis", AXES)
def test_words_of_neighbours_differ_in_half_of_their_bits(
    axis: str, chance: Callable[..., float]
) -> None:
    first, second = (w.flatten() for w in words(axis))
    flips = torch.stack([((first ^ second) >> bit) & 1 for bit in range(64)]).sum(1)
    both = torch.stack([flips, len(first) - flips])
    statistic = float((both - len(first) / 2).square().sum() / (len(first) / 2))
    tail = torch.special.gammaincc(torch.tensor(32.0), torch.tensor(statistic / 2))
    assert float(tail) > SMALL
    correlation = torch.corrcoef(torch.stack([first.double(), second.double()]))[0, 1]
    assert abs(float(correlation)) < 4 / 256


def test_no_two_uses_share_a_word() -> None:
    seeds = torch.arange(20)[:, None, None]
    steps, indexes = torch.arange(40)[:, None], torch.arange(10)
    everything = [bits(seeds, purpose, steps, indexes) for purpose in Purpose]
    everything += [bits(seeds, purpose, steps) for purpose in Purpose]
    together = torch.cat([part.flatten() for part in everything])
    assert len(set(together.tolist())) == len(together)


@given(st.data(), st.lists(INT64, min_size=1, max_size=8), st.sampled_from(Purpose))
def test_a_run_has_the_same_words_in_any_fleet(
    data: st.DataObject, seeds: list[int], purpose: Purpose
) -> None:
    places = data.draw(st.lists(st.integers(0, len(seeds) - 1), min_size=1, max_size=8))
    step = data.draw(st.integers(0, 2**40))
    fleet = torch.tensor(seeds)
    index = torch.arange(3)
    whole = bits(fleet[:, None], purpose, step, index)
    assert torch.equal(bits(fleet[places][:, None], purpose, step, index), whole[places])
    steps = torch.tensor([step - 1, step])[:, None, None]
    assert torch.equal(bits(fleet[:, None], purpose, steps, index)[1], whole)
    for k, seed in enumerate(seeds):
        for i in range(3):
            assert bits(torch.tensor(seed), purpose, step, i) == whole[k, i]


@given(INT64, st.sampled_from(Purpose), st.lists(st.integers(0, 2**62), max_size=3))
def test_words_are_chained_splitmix64(seed: int, purpose: Purpose, path: list[int]) -> None:
    """The same arithmetic in Python's integers: no device and no torch could disagree."""

    def mix(x: int) -> int:
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
        return x ^ (x >> 31)

    state = mix((seed + int(purpose) * 0x9E3779B97F4A7C15) % 2**64)
    for word in path:
        state = mix((state + (word + 1) * 0x9E3779B97F4A7C15) % 2**64)
    assert int(bits(torch.tensor(seed), purpose, *path)) % 2**64 == state


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10, 100, 1000])
def test_below_is_uniform(n: int, chance: Callable[..., float]) -> None:
    values = below(bits(torch.arange(100_000), Purpose.SLOT), n)
    assert int(values.min()) >= 0
    counts = values.bincount(minlength=n)
    assert len(counts) == n
    assert n == 1 or chance(counts) > SMALL


@given(INT64, st.integers(1, 2**31))
def test_below_takes_the_upper_half_of_a_word(word: int, n: int) -> None:
    value = int(below(torch.tensor(word), n))
    assert 0 <= value < n
    assert value == (word % 2**64 >> 32) * n >> 32
    assert value == int(below(torch.tensor([word]), torch.tensor([[n]])))


def test_a_seed_keeps_its_meaning_for_ever() -> None:
    """If this fails, every published number and every checkpoint changes: do not just repin it."""
    assert {p.name: int(p) for p in Purpose} == {
        "ORDER": 1, "SLOT": 2, "DRAW": 3, "SPLIT": 4, "PIXELS": 5, "ANGLE": 6, "GROUP": 7,
        "NOISE": 8, "VIEW": 9, "KEEP": 10, "RANDOM": 11, "ANCHOR": 12, "WARM": 13,
        "ANSWER": 14, "RECORD": 15, "CLASSES": 20, "TASKS": 21,
        "HOLE": 22,
    }  # fmt: skip
    seeds = torch.tensor([0, 1, 42, 2**40, -1])
    assert bits(seeds, Purpose.DRAW, 3, 4).tolist() == [
        6597042001900530719,
        8223237870565399804,
        985026225122483623,
        2866969123209991885,
        -8561262320730865440,
    ]
    assert bits(seeds[:2], Purpose.ORDER).tolist() == [-2152535657050944081, -7995527694508729151]
    assert below(bits(seeds, Purpose.SLOT, 7), 1000).tolist() == [254, 152, 397, 880, 670]
