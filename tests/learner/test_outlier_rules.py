"""Which examples are left out of streams of all kinds: of clean ones none, and glitches always."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch

from recollect.learner.inputs.outliers import Watch

COUNT = 3000
Rng = np.random.Generator
Made = tuple[np.ndarray, np.ndarray]


def left_out(x: np.ndarray, y: np.ndarray, size: int = 10) -> list[int]:
    """The numbers of the examples that a watch leaves out."""
    watch, learned, found = Watch.empty(), Counter[object](), list[int]()
    for start in range(0, len(x), size):
        batch = torch.from_numpy(x[start : start + size].astype(np.float32))
        labels = y[start : start + size].tolist()
        watch, reasons = watch.judge(batch, labels, lambda label: learned[label])
        watch = watch.after(len(labels), reasons)
        learned.update(label for row, label in enumerate(labels) if row not in reasons)
        found += [start + row for row in sorted(reasons)]
    assert watch.arrived == len(x)
    assert watch.left_out == len(found)
    return found


def labels(rng: Rng) -> np.ndarray:
    return rng.integers(0, 5, COUNT)


def one_hot(rng: Rng) -> np.ndarray:
    """500 columns, most of which are zero for thousands of rows and then 1."""
    x = np.zeros((COUNT, 500))
    x[np.arange(COUNT), np.minimum(rng.zipf(1.3, COUNT), 500) - 1] = 1
    return x


def first_change(rng: Rng) -> np.ndarray:
    """Constant columns that vary for the first time, and one that was zero."""
    x: np.ndarray = np.c_[rng.normal(size=(COUNT, 4)), np.full(COUNT, 5.0), np.zeros(COUNT)]
    x[COUNT // 2 :, 4:] = rng.normal(5, 3, (COUNT - COUNT // 2, 2))
    return x


CLEAN: dict[str, Callable[[Rng], np.ndarray]] = {
    "Gaussian": lambda rng: rng.normal(size=(COUNT, 10)),
    "one feature": lambda rng: rng.normal(size=(COUNT, 1)),
    "uniform": lambda rng: rng.random((COUNT, 20)),
    "features of all scales": lambda rng: rng.normal(size=(COUNT, 8)) * 10.0 ** np.arange(-4, 4),
    "a time": lambda rng: np.c_[rng.normal(size=(COUNT, 3)), 1.7e9 + np.arange(COUNT)],
    "log-normal": lambda rng: np.exp(rng.normal(size=(COUNT, 20))),
    "log-normal, very wide": lambda rng: np.exp(2 * rng.normal(size=(COUNT, 20))),
    "exponential": lambda rng: rng.exponential(size=(COUNT, 10)),
    "Student, three degrees": lambda rng: rng.standard_t(3, (COUNT, 10)),
    "rare counts": lambda rng: rng.poisson(0.05, (COUNT, 10)),
    "counts of any rate": lambda rng: rng.poisson(10.0 ** rng.uniform(-3, 3, (COUNT, 10))),
    "bursts of counts": lambda rng: rng.negative_binomial(0.1, 0.01, (COUNT, 10)),
    "one-hot": one_hot,
    "one-hot and dense": lambda rng: np.c_[one_hot(rng), rng.normal(size=(COUNT, 3))],
    "zeros, then ones": lambda rng: np.repeat([0, 1], COUNT // 2)[:, None] * np.ones(4),
    "constant, then not": first_change,
    "a scale that drifts": lambda rng: (
        rng.normal(size=(COUNT, 8)) * np.exp(np.arange(COUNT) / 500)[:, None]
    ),
    "a counter": lambda rng: np.c_[np.arange(COUNT), rng.normal(size=(COUNT, 3))],
    "units a hundredth": lambda rng: (
        rng.normal(size=(COUNT, 8)) * np.where(np.arange(COUNT) < COUNT // 2, 1, 0.01)[:, None]
    ),
}


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("size", [1, 10])
def test_of_clean_streams_nothing_is_left_out(name: str, size: int) -> None:
    rng = np.random.default_rng(1)
    assert left_out(CLEAN[name](rng), labels(rng), size) == []


@pytest.mark.parametrize("name", ["Gaussian", "one feature", "uniform", "one-hot", "log-normal"])
@pytest.mark.parametrize("size", [1, 10])
def test_glitches_and_nothing_else_are_left_out(name: str, size: int) -> None:
    rng = np.random.default_rng(2)
    x, y = CLEAN[name](rng), labels(rng)
    bad = np.flatnonzero(rng.random(COUNT) < 0.01)
    sizes = 10.0 ** rng.uniform(3, 30, len(bad)) * rng.choice([-1, 1], len(bad))
    sizes[::5], sizes[1::5] = np.nan, np.inf
    x[bad, rng.integers(0, x.shape[1], len(bad))] = sizes
    found = left_out(x, y, size)
    missed = sorted({*bad.tolist()} - {*found})
    assert {*found} <= {*bad.tolist()}
    assert all(row < 100 for row in missed), "but before the stream has shown what is usual"


def test_a_glitch_in_a_column_of_small_numbers_is_seen_beside_large_ones() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(COUNT, 8)) * 10.0 ** np.arange(-4, 4)
    x[2000, 0] = 1.0  # 10,000 times what this column has, and little for the others
    assert left_out(x, labels(rng)) == [2000]


@pytest.mark.parametrize("times", [100, 1e4, 1e6])
@pytest.mark.parametrize("column", [None, 3])
@pytest.mark.parametrize("size", [1, 10])
def test_units_that_change_are_the_usual_after_at_most_thirty_examples(
    times: float, column: int | None, size: int
) -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(COUNT, 8)) * (1e7, *[1] * 7) if column else rng.normal(size=(COUNT, 8))
    x[1500:, column if column else slice(None)] *= times
    found = left_out(x, labels(rng), size)
    assert len(found) <= 30
    assert all(1500 <= row < 1700 for row in found)


def test_a_class_thirty_times_larger_is_learned_at_once() -> None:
    rng = np.random.default_rng(5)
    y = np.arange(COUNT) // 500 % 3
    found = left_out(rng.normal(size=(COUNT, 8)) * np.where(y == 2, 30, 1)[:, None], y)
    assert len(found) <= 1


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
def test_a_class_a_thousand_times_larger_is_learned_from_its_fifth_example_on(rate: float) -> None:
    rng = np.random.default_rng(6)
    new = (rng.random(COUNT) < rate) & (np.arange(COUNT) >= 1000)
    y = np.where(new, 9, labels(rng))
    found = left_out(rng.normal(size=(COUNT, 8)) * np.where(new, 1000, 1)[:, None], y)
    assert 0 < len(found) <= 10
    assert all(new[row] for row in found)


def test_glitches_do_not_move_the_bounds() -> None:
    """However many there were, and however large, the next one is left out too."""
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(COUNT, 4)), labels(rng)
    bad = np.arange(500, COUNT, 67)
    x[bad, 0] = 10.0 ** np.linspace(2.5, 30, len(bad))
    assert left_out(x, y) == bad.tolist()


def test_bytes_and_whole_numbers_are_not_examined() -> None:
    for dtype in (torch.uint8, torch.int64):
        x = torch.full((3, 4), 255).to(dtype)
        watch, reasons = Watch.empty().judge(x, [0, 0, 0], lambda label: 0)
        assert (watch.magnitudes.counted, reasons) == (0, {})
