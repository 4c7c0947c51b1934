"""Herding against a loop that tries every example."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import normalize

from recollect.memory.by_features import herd


def unit(features: Tensor) -> Tensor:
    return normalize(features, dim=-1)


def length_one(vector: Tensor) -> Tensor:
    norm = float(vector.square().sum()) ** 0.5
    return vector / norm if norm else vector


def check(features: Tensor, chosen: list[int]) -> None:
    """One run, `[n, D]`: nothing that was left would have brought the mean closer."""
    goal = length_one(features.mean(0))

    def apart(places: list[int]) -> float:
        return float((goal - length_one(features[places].mean(0))).square().sum())

    for number, place in enumerate(chosen):
        before = chosen[:number]
        assert place not in before
        left = [other for other in range(len(features)) if other not in before]
        best = min(apart([*before, other]) for other in left)
        assert apart([*before, place]) <= best + 1e-12


def some(seed: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return unit(torch.randn(*shape, dtype=torch.float64, generator=generator))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 3), st.integers(1, 9), st.integers(2, 6), st.data())
def test_every_choice_is_the_one_that_brings_the_mean_closest(
    seed: int, runs: int, n: int, size: int, data: st.DataObject
) -> None:
    features, count = some(seed, runs, n, size), data.draw(st.integers(0, n))
    chosen = herd(features, count)
    assert chosen.dtype == torch.int64
    assert chosen.shape == (runs, count)
    for run, places in zip(features, chosen.tolist(), strict=True):
        check(run, places)


def test_no_example_is_chosen_twice_and_the_first_do_not_depend_on_how_many() -> None:
    features = some(0, 2, 40, 3)
    whole = herd(features, 40)
    assert whole.sort(1).values.tolist() == [list(range(40))] * 2
    assert torch.equal(herd(features, 7), whole[:, :7])


def test_a_run_is_herded_as_it_would_be_alone() -> None:
    features = some(1, 4, 30, 5)
    whole = herd(features, 12)
    for run in range(4):
        assert torch.equal(herd(features[run : run + 1], 12)[0], whole[run])


def test_few_herded_examples_have_a_better_mean_than_random_ones() -> None:
    features = some(2, 20, 200, 10) + 0.1
    goal = unit(features.mean(1))

    def off(places: Tensor) -> Tensor:
        some_of_them = features.gather(1, places.unsqueeze(2).expand(-1, -1, 10))
        apart: Tensor = torch.linalg.vector_norm(unit(some_of_them.mean(1)) - goal, dim=1)
        return apart

    generator = torch.Generator().manual_seed(0)
    at_random = torch.rand(20, 200, generator=generator).argsort(1)[:, :10]
    assert (off(herd(features, 10)) < 0.3 * off(at_random)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_features_that_are_all_zero_or_all_alike_are_no_trouble(dtype: torch.dtype) -> None:
    for features in (torch.zeros(2, 5, 3, dtype=dtype), unit(torch.ones(2, 5, 3, dtype=dtype))):
        assert herd(features, 5).sort(1).values.tolist() == [[0, 1, 2, 3, 4]] * 2


def test_opposite_features_are_no_trouble() -> None:
    """A sum of nothing has no direction."""
    features = torch.tensor([[[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]])
    assert sorted(herd(features, 4)[0].tolist()) == [0, 1, 2, 3]
