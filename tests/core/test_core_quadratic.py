"""Quadratic programmes for a whole fleet, against an established solver and their conditions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from torch import Tensor

from recollect.core.quadratic import lowest

RUNS = 12
TASKS = (1, 2, 4, 9, 20)
DIMENSIONS = (1, 3, 30)
GAMMAS = (0.0, 0.5)


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def spread(tasks: int) -> Tensor:
    """Factors from a millionth to a million."""
    return (10.0 ** torch.linspace(-6, 6, max(tasks, 2)).double()[:tasks]).view(1, -1, 1)


KINDS: dict[str, Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "random": lambda past, g: (past, g),
    "duplicates": lambda past, g: (past[:, torch.arange(past.shape[1]) // 2], g),
    "nearly alike": lambda past, g: (past[:, :1] + 1e-4 * past, g),
    "some are zero": lambda past, g: (past * (torch.arange(past.shape[1]) % 2).view(1, -1, 1), g),
    "all are zero": lambda past, g: (0 * past, g),
    "nothing to project": lambda past, g: (past, 0 * g),
    "opposite": lambda past, g: (torch.cat([past, -past], 1)[:, : past.shape[1]], g),
    "opposite pairs": lambda past, g: (
        past[:, torch.arange(past.shape[1]) // 2]
        * (1 - 2 * (torch.arange(past.shape[1]) % 2)).view(1, -1, 1),
        g,
    ),
    "all agree": lambda past, g: (past + 9 * g.unsqueeze(1), g),
    "all disagree": lambda past, g: (past - 9 * g.unsqueeze(1), g),
    "one is the opposite of g": lambda past, g: (torch.cat([-g.unsqueeze(1), past], 1), g),
    "huge": lambda past, g: (1e9 * past, g),
    "small": lambda past, g: (1e-9 * past, g),
    "huge g": lambda past, g: (past, 1e9 * g),
    "small g": lambda past, g: (past, 1e-9 * g),
    "of all scales": lambda past, g: (past * spread(past.shape[1]), g),
}


def programme(past: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """H = GG' and f = Gg of past gradients `[K, T, P]` and a gradient `[K, P]`."""
    return past @ past.mT, (past @ g.unsqueeze(2)).squeeze(2)


def projected(past: Tensor, g: Tensor, v: Tensor) -> Tensor:
    return (past.mT @ v.unsqueeze(2)).squeeze(2) + g


def established(past: Tensor, g: Tensor, gamma: float) -> Tensor:
    """The same v from the least-squares problem behind it: u >= 0 with |g + gamma G'1 + G'u| least.

    It is solved for gradients and g of length one, as the method of Lawson and Hanson likes them.
    """
    norms = past.norm(dim=2)
    unit = torch.where(norms > 0, norms.reciprocal(), 0.0)
    start = g + gamma * past.sum(1)
    size = start.norm(dim=1).clamp(min=1e-300)
    found = [
        nnls((rows * each.unsqueeze(1)).T.numpy(), (-target / length).numpy())[0]
        for rows, each, target, length in zip(past, unit, start, size, strict=True)
    ]
    above: Tensor = torch.from_numpy(np.stack(found)) * unit * size.unsqueeze(1)
    return gamma + above


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("dimensions", DIMENSIONS)
@pytest.mark.parametrize("tasks", TASKS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_projection_is_that_of_an_established_solver(
    kind: str, tasks: int, dimensions: int, gamma: float
) -> None:
    drawn = normal(RUNS, tasks, dimensions, seed=tasks), normal(RUNS, dimensions, seed=99)
    past, g = KINDS[kind](*drawn)
    v = lowest(*programme(past, g), torch.full((RUNS,), gamma))
    assert (v >= gamma).all()
    ours = projected(past, g, v)
    theirs = projected(past, g, established(past, g, gamma))
    size = (g + gamma * past.sum(1)).norm(dim=1, keepdim=True) + 1e-300
    torch.testing.assert_close(ours / size, theirs / size, rtol=0, atol=1e-5)


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("tasks", TASKS)
def test_the_unknowns_are_those_of_an_established_solver(tasks: int, gamma: float) -> None:
    """With more dimensions than tasks there is only one v."""
    past, g = normal(RUNS, tasks, 40), normal(RUNS, 40, seed=1)
    v = lowest(*programme(past, g), torch.full((RUNS,), gamma))
    torch.testing.assert_close(v, established(past, g, gamma), rtol=0, atol=1e-5)


def conditions(past: Tensor, g: Tensor, gamma: Tensor, v: Tensor) -> Tensor:
    """By how much v misses the conditions of a minimum, relative to the programme's size, `[K]`.

    With s the slope and u = v - gamma, all of u >= 0, s >= 0 and us = 0 say min(u, s) = 0.
    """
    norms = past.norm(dim=2)
    slope = (past @ projected(past, g, v).unsqueeze(2)).squeeze(2)
    above = (v - gamma.unsqueeze(1)) * norms
    size = torch.maximum((norms * gamma.unsqueeze(1)).amax(1), g.norm(dim=1))
    missed = torch.minimum(above, slope / norms)
    return torch.where(norms > 0, missed, 0.0).abs().amax(1) / size


@st.composite
def fleets(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """Past gradients, a gradient and a bound; gradients repeat, vanish and oppose each other."""
    tasks, dimensions = draw(st.integers(1, 20)), draw(st.integers(1, 25))
    past = normal(3, tasks, dimensions, seed=draw(st.integers(0, 2**32)))
    taken = draw(st.lists(st.integers(0, tasks - 1), min_size=tasks, max_size=tasks))
    factors = st.sampled_from([0.0, 1.0, 1.0, 1.0, -1.0, 1e-3, 1e4])
    factor = torch.tensor(draw(st.lists(factors, min_size=tasks, max_size=tasks)))
    g = normal(3, dimensions, seed=draw(st.integers(0, 2**32)))
    bound = torch.tensor(draw(st.lists(st.floats(0, 2), min_size=3, max_size=3))).double()
    mixed = past[:, taken] if draw(st.booleans()) else past
    return mixed * factor.double().view(1, -1, 1), g * 10 ** draw(st.integers(-5, 5)), bound


@settings(max_examples=150, deadline=None)
@given(fleets())
def test_what_is_found_fulfils_the_conditions_of_a_minimum(
    fleet: tuple[Tensor, Tensor, Tensor],
) -> None:
    past, g, bound = fleet
    v = lowest(*programme(past, g), bound)
    assert (v >= bound.unsqueeze(1)).all()
    assert (conditions(past, g, bound, v) < 1e-6).all()


@pytest.mark.parametrize("angle", [1e-1, 1e-3, 1e-5])
def test_two_that_are_almost_opposite_leave_only_what_both_allow(angle: float) -> None:
    """The way out is along their common normal, and v is as large as the angle is small."""
    past = torch.tensor([[[1.0, 0.0], [-1.0, angle]]], dtype=torch.float64)
    g = torch.tensor([[-0.3, -1.0]], dtype=torch.float64)
    v = lowest(*programme(past, g), torch.zeros(1))
    torch.testing.assert_close(projected(past, g, v), torch.zeros_like(g), rtol=0, atol=1e-6)


def test_a_run_does_not_depend_on_its_company() -> None:
    past, g = normal(RUNS, 6, 4), normal(RUNS, 4, seed=1)
    past[3] *= 1e6
    past[5] = 0
    gamma = torch.linspace(0, 1, RUNS)
    together = lowest(*programme(past, g), gamma)
    for run in range(RUNS):
        one = slice(run, run + 1)
        alone = lowest(*programme(past[one], g[one]), gamma[one])
        torch.testing.assert_close(together[one], alone, rtol=1e-9, atol=1e-9)


def test_single_precision_comes_back_as_it_went_in() -> None:
    past, g = normal(RUNS, 3, 40), normal(RUNS, 40, seed=1)
    matrix, vector = programme(past, g)
    v = lowest(matrix, vector, torch.zeros(RUNS))
    single = lowest(matrix.float(), vector.float(), torch.zeros(RUNS))
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), v, rtol=0, atol=1e-5)
