"""Colour pictures from end to end: a small ResNet-18 on a benchmark of the paper, with toy data."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from recollect import ER, ResNet18
from recollect.streams import Stream, benchmark
from recollect.streams.data import Dataset
from recollect.train import Job, Run, train


def coloured(count: int, classes: int, seed: int) -> tuple[Tensor, Tensor]:
    """Noise, with a square whose colour and place tell the class."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % classes
    x = torch.randint(60, (count, 3, 16, 16), dtype=torch.uint8, generator=generator)
    for label in range(classes):
        x[y == label, label % 3, :, 4 * (label // 3) : 4 * (label // 3) + 6] += 180
    return x, y


@pytest.fixture(scope="module")
def stream() -> Stream:
    spec = benchmark("seq-cifar10")
    (x, y), (test_x, test_y) = coloured(400, 10, 0), coloured(100, 10, 1)
    return spec.build(spec, Dataset("toy", 10, x, y, test_x, test_y))


def test_a_small_resnet_learns_and_remembers(stream: Stream) -> None:
    """Without a memory, Class-IL accuracy would end at 20 %: only the last two classes."""
    assert stream.images == benchmark("seq-cifar10").images
    assert (stream.tasks, stream.shape) == (5, (3, 16, 16))
    job = Job(
        stream=stream, runs=(Run(0, 0.1, ER()),), batch=8, replay=16, buffer=60, epochs=3,
        network=partial(ResNet18, 10, width=8),
    )  # fmt: skip
    (result,) = train(job)
    assert result.steps == 5 * 10 * 3
    assert result.accuracy["task"] > 75
    assert result.accuracy["class"] > 30
    assert result.memory_bytes == 60 * (3 * 16 * 16 + 8)
