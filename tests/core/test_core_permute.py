"""Keyed permutations: bijections, uniform, and the same however they are batched."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from recollect.core.random import Purpose, bits, permute

SMALL = 1e-4


def keys(count: int, start: int = 0) -> Tensor:
    return bits(torch.arange(start, start + count), Purpose.DRAW, 0, 0)


@pytest.mark.parametrize("first", range(1, 301, 50))
def test_every_small_permutation_is_a_bijection(first: int) -> None:
    for n in range(first, first + 50):
        images = permute(keys(5)[:, None], torch.arange(n), n)
        assert torch.equal(images.sort(1).values, torch.arange(n).expand(5, n)), n


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**62), st.integers(301, 60_000))
def test_every_large_permutation_is_a_bijection(seed: int, n: int) -> None:
    images = permute(bits(torch.tensor(seed), Purpose.ORDER), torch.arange(n), n)
    assert torch.equal(images.sort().values, torch.arange(n))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**62), st.integers(10**6, 2**31 - 1))
def test_the_largest_permutations_stay_inside_and_repeat_nothing(seed: int, n: int) -> None:
    index = torch.cat([torch.arange(500), torch.arange(n - 500, n)])
    images = permute(bits(torch.tensor(seed), Purpose.ORDER), index, n)
    assert len(set(images.tolist())) == 1000
    assert 0 <= int(images.min()) <= int(images.max()) < n


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_all_permutations_of_a_few_are_equally_likely(n: int, chance: Callable[..., float]) -> None:
    images = permute(keys(60_000)[:, None], torch.arange(n), n)
    code = (images * n ** torch.arange(n)).sum(1).bincount(minlength=n**n)
    real = torch.zeros(n**n, dtype=torch.float64)
    for images_of in permutations(range(n)):
        real[sum(image * n**place for place, image in enumerate(images_of))] = 1
    assert chance(code, real * 60_000 / real.sum()) > SMALL


@pytest.mark.parametrize("n", [7, 16, 25, 200])
@pytest.mark.parametrize("ends", [(0, 1), (2, -1)])
def test_all_ordered_pairs_are_equally_likely(
    n: int, ends: tuple[int, int], chance: Callable[..., float]
) -> None:
    count = max(60_000, 6 * n * n)
    images = permute(keys(count)[:, None], torch.tensor(ends) % n, n)
    pairs = (images[:, 0] * n + images[:, 1]).bincount(minlength=n * n)
    possible = 1 - torch.eye(n)
    assert chance(pairs, possible * count / possible.sum()) > SMALL


@pytest.mark.parametrize(("n", "cells"), [(7, 7), (16, 16), (25, 25), (200, 8)])
def test_all_ordered_triples_are_equally_likely(
    n: int, cells: int, chance: Callable[..., float]
) -> None:
    """For a large n the triples of equal cells of neighbours, of which there are few enough."""
    count, width = 80_000, n // cells
    images = permute(keys(count)[:, None], torch.tensor([0, n // 2, n - 1]), n) // width
    triples = (images * torch.tensor([cells**2, cells, 1])).sum(1).bincount(minlength=cells**3)
    a, b, c = (
        torch.arange(cells).view(-1, 1, 1),
        torch.arange(cells).view(-1, 1),
        torch.arange(cells),
    )
    ways = width * (width - (a == b).int()) * (width - (a == c).int() - (b == c).int())
    assert int(ways.sum()) == n * (n - 1) * (n - 2)
    assert chance(triples, ways.double() * count / ways.sum()) > SMALL


@pytest.mark.parametrize("n", [5, 16, 200])
def test_permutations_of_neighbouring_seeds_are_independent(
    n: int, chance: Callable[..., float]
) -> None:
    count = max(60_000, 6 * n * n)
    image = permute(keys(count + 1), torch.tensor(0), n)
    assert chance((image[:-1] * n + image[1:]).bincount(minlength=n * n)) > SMALL


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 40) | st.integers(1, 2**31 - 1), min_size=1, max_size=6), st.data())
def test_sizes_mixed_in_one_call_equal_separate_calls(
    sizes: list[int], data: st.DataObject
) -> None:
    shown = min(sizes)
    index = torch.arange(min(shown, 5))
    seeds = torch.tensor(data.draw(st.lists(st.integers(0, 2**62), min_size=1, max_size=4)))
    key = bits(seeds, Purpose.DRAW)
    mixed = permute(key[:, None], index, torch.tensor(sizes)[:, None, None])
    assert mixed.shape == (len(sizes), len(seeds), len(index))
    for i, n in enumerate(sizes):
        for k in range(len(seeds)):
            one_by_one = [int(permute(key[k], place, n)) for place in index]
            assert mixed[i, k].tolist() == one_by_one


def test_no_example_at_all_is_fine() -> None:
    nothing = torch.zeros(0, dtype=torch.int64)
    assert permute(keys(2)[:, None], nothing, torch.tensor([[0]])).shape == (2, 0)


def test_a_key_keeps_its_meaning_for_ever() -> None:
    """If this fails, every order and every replay changes: do not just repin it."""
    key = bits(torch.tensor([0, 1]), Purpose.ORDER)[:, None]
    assert permute(key, torch.arange(10), 10).tolist() == [
        [8, 6, 2, 9, 4, 1, 0, 3, 7, 5],
        [1, 5, 7, 9, 3, 8, 2, 4, 0, 6],
    ]
    assert permute(key, torch.arange(5), 16).tolist() == [[14, 3, 13, 12, 2], [14, 5, 10, 13, 0]]
    assert permute(key, torch.arange(5), 200).tolist() == [
        [60, 186, 157, 127, 173],
        [20, 7, 123, 5, 99],
    ]
    assert permute(key, torch.arange(3), 60_000).tolist() == [
        [46563, 5347, 38702],
        [10009, 58007, 41030],
    ]
