"""A memory of so many bytes: what fits, and what stays when rows get longer with the classes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from tests.learner.some_stream import engine_of
from tests.learner.test_growth import growing, some
from torch import nn

from recollect import ER, MLP, SGD, DERpp, InputError
from recollect.learner.numbers import bytes_in


@pytest.mark.parametrize(
    ("size", "expected"),
    [("64 MB", 64 * 10**6), ("1.5 GiB", 3 * 2**29), ("200kb", 200_000), (" 7 B ", 7)],
)
def test_sizes_in_words(size: str, expected: int) -> None:
    assert bytes_in(size) == expected


@pytest.mark.parametrize("size", ["", "64", "MB", "-3 MB", "3 apples", "1e3 MB", "0x10 B"])
def test_sizes_that_are_none(size: str) -> None:
    with pytest.raises(InputError, match="such as '64 MB'"):
        growing(MLP(4, 1), ER(), memory=size)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_memory_in_bytes_is_used_and_not_exceeded(dtype: torch.dtype) -> None:
    learner = growing(nn.Linear(16, 1).to(dtype), DERpp(), memory="10 kB", lr=1e-3)
    for step in range(60):
        learner.observe(some(5, step), [step // 10] * 5)
        row = 16 * 4 + 8 + len(learner.classes) * dtype.itemsize
        assert 10_000 - row < learner.memory_bytes <= 10_000


def test_images_of_bytes_need_a_byte_a_pixel() -> None:
    learner = growing(MLP(100, 1), ER(), memory="1 MB")
    learner.observe(np.zeros((10, 10), dtype=np.uint8), "a")
    assert engine_of(learner).fleet.memory.capacity == 10**6 // (100 + 8)


def test_a_memory_without_room_for_one_example_is_refused() -> None:
    learner = growing(MLP(16, 1), ER(), memory="71 B")
    with pytest.raises(InputError, match="is too small for one example of 72 bytes"):
        learner.observe(some(1), ["a"])
    exact = growing(MLP(16, 1), DERpp(), memory="76 B")
    exact.observe(some(1), ["a"])
    before = exact._packed()
    with pytest.raises(InputError, match="is too small for one example of 80 bytes"):
        exact.observe(some(1), ["b"])
    assert exact._packed() == before


def test_what_stays_when_the_memory_shrinks_is_uniform_over_the_stream(
    chance: Callable[..., float],
) -> None:
    """Twenty examples, of which a memory keeps fourteen, then nine: every one equally often."""
    counts = torch.zeros(20)
    sizes = set()
    for seed in range(200):
        learner = growing(nn.Linear(1, 1), DERpp(), memory="224 B", lr=1e-6, seed=seed, replay=2)
        x = torch.arange(20.0).unsqueeze(1)
        learner.observe(x[:16], ["a"] * 16)  # 4 + 8 + 4 bytes a row: 14 of them
        learner.observe(x[16:18], ["a", "a"])
        learner.observe(x[18:], ["b", "c"])  # 4 + 8 + 12 bytes a row: 9 of them
        kept = engine_of(learner).fleet.memory.fields()
        sizes.add(kept.x.shape[1])
        places = kept.x.flatten().long()
        assert len(set(places.tolist())) == 9
        labels = torch.where(places < 18, 0, places - 17)
        assert torch.equal(kept.y.flatten(), labels), "an example lost its label"
        counts[places] += 1
    assert sizes == {9}
    assert chance(counts) > 1e-3


def test_a_memory_that_is_not_full_shrinks_without_loss() -> None:
    learner = growing(nn.Linear(1, 1), DERpp(), memory="240 B", lr=1e-6)
    learner.observe(torch.arange(5.0).unsqueeze(1), ["a"] * 5)
    learner.observe(torch.arange(5.0, 8.0).unsqueeze(1), ["b", "c", "b"])
    kept = engine_of(learner).fleet.memory.fields()
    assert kept.x.shape == (1, 10, 1)
    assert sorted(kept.x.flatten()[:8].tolist()) == [0, 1, 2, 3, 4, 5, 6, 7]
    learner.observe(torch.arange(8.0, 10.0).unsqueeze(1), ["c", "c"])
    assert sorted(engine_of(learner).fleet.memory.fields().x.flatten().tolist()) == [*range(10)]


def test_methods_without_a_memory_need_none() -> None:
    learner = growing(MLP(16, 1), SGD(), memory="1 B")
    learner.observe(some(2), ["a", "b"])
    assert learner.memory_bytes == 0
