"""MNIST-360: the guarantees of the paper's appendix."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from recollect.errors import InputError
from recollect.streams.data import Dataset
from recollect.streams.mnist360 import Mnist360
from recollect.streams.pixels import rotate
from recollect.streams.stream import Stream

COUNTS = [20, 31, 6, 17, 40, 13, 25, 7, 61, 9]
TOTAL = sum(COUNTS[:9])
SEEDS = torch.tensor([3, 1, 7])
PAIRS = [(digit, (digit + 1) % 9) for digit in range(9)] * 3


def fake_digits() -> Dataset:
    """Random images in a random order; the central pixel, which never moves, numbers an image."""
    generator = torch.Generator().manual_seed(0)
    y = torch.repeat_interleave(torch.tensor(COUNTS))
    y = y[torch.randperm(len(y), generator=generator)]
    x = torch.randint(1, 256, (len(y), 5, 5), dtype=torch.uint8, generator=generator)
    x[:, 2, 2] = torch.arange(len(y))
    return Dataset("fake", 10, x, y, x[:100].clone(), y[:100].clone())


@pytest.fixture(scope="module")
def stream() -> Mnist360:
    return Mnist360(fake_digits())


@pytest.fixture(scope="module")
def shown(stream: Mnist360) -> Tensor:
    """Which examples each run is shown, `[K, N]`."""
    return stream.pick(SEEDS, 0, stream.order(SEEDS, 0, 0, 0, TOTAL)).x[..., 2, 2].long()


@pytest.fixture(scope="module")
def digits(stream: Mnist360, shown: Tensor) -> Tensor:
    """Which digits arrive, `[N]`: the same ones in every run."""
    y = stream.pick(SEEDS, 0, stream.order(SEEDS, 0, 0, 0, TOTAL)).y
    assert torch.equal(y, stream.dataset.train_y[shown])
    assert torch.equal(y, y[:1].expand(3, -1))
    return y[0]


def pieces(stream: Mnist360, digits: Tensor) -> list[list[int]]:
    return [piece.tolist() for piece in torch.split(digits, list(stream.parts(0)))]


def test_there_are_27_parts_that_hold_all_digits_but_nine(stream: Mnist360) -> None:
    assert len(stream.parts(0)) == 27
    assert sum(stream.parts(0)) == TOTAL


def test_every_example_arrives_exactly_once(stream: Mnist360, shown: Tensor) -> None:
    everything = (stream.dataset.train_y < 9).nonzero().flatten()
    assert torch.equal(shown.sort().values, everything.expand(3, -1))


def test_a_part_holds_one_pair_of_neighbours(stream: Mnist360, digits: Tensor) -> None:
    assert [set(piece) for piece in pieces(stream, digits)] == [set(pair) for pair in PAIRS]


def test_a_digit_is_split_evenly_over_the_six_parts_it_is_in(
    stream: Mnist360, digits: Tensor
) -> None:
    for digit in range(9):
        groups = [piece.count(digit) for piece in pieces(stream, digits) if digit in piece]
        assert len(groups) == 6
        assert sum(groups) == COUNTS[digit]
        assert max(groups) - min(groups) <= 1


@pytest.mark.parametrize("size", [1, 4, 8, 16])
def test_every_batch_is_in_proportion(stream: Mnist360, digits: Tensor, size: int) -> None:
    for piece, (first, _) in zip(pieces(stream, digits), PAIRS, strict=True):
        share = piece.count(first) / len(piece)
        for start in range(0, len(piece), size):
            batch = piece[start : start + size]
            assert abs(batch.count(first) - share * len(batch)) <= 1


def test_every_prefix_is_in_proportion(stream: Mnist360, digits: Tensor) -> None:
    for piece, (first, _) in zip(pieces(stream, digits), PAIRS, strict=True):
        share = piece.count(first) / len(piece)
        for stop in range(len(piece) + 1):
            assert abs(piece[:stop].count(first) - share * stop) <= 0.5


@pytest.mark.parametrize("offset", [60, 30])
def test_each_digit_turns_once_around_from_its_own_offset(
    stream: Mnist360, shown: Tensor, digits: Tensor, offset: int
) -> None:
    assert stream.offset == 60
    stream = replace(stream, offset=offset)
    batch = stream.pick(SEEDS, 0, stream.order(SEEDS, 0, 0, 0, TOTAL))
    seen = [0] * 9
    angles = []
    for digit in digits.tolist():
        angles.append(
            2 * math.pi / COUNTS[digit] * seen[digit] + (digit - 1) * offset * math.pi / 180
        )
        seen[digit] += 1
    for digit in range(9):
        own = [angle for angle, d in zip(angles, digits.tolist(), strict=True) if d == digit]
        step = 2 * math.pi / COUNTS[digit]
        assert all(after - before == pytest.approx(step) for before, after in pairwise(own))
        assert own[-1] - own[0] == pytest.approx(2 * math.pi - step)
        assert own[0] == pytest.approx((digit - 1) * offset * math.pi / 180)
    expected = rotate(stream.dataset.train_x[shown], torch.tensor([angles], dtype=torch.float64))
    same = (batch.x == expected).flatten(2).all(2)
    assert same.all()


def test_no_image_of_a_class_is_shown_under_an_angle_twice() -> None:
    """Seen from outside: with one picture for a whole class, no two of its images are alike."""
    data = fake_digits()
    picture = torch.arange(101 * 101, dtype=torch.int64).mul(37).remainder(255).to(torch.uint8)
    x = picture.view(101, 101).expand(len(data.train_y), -1, -1)
    tested = picture.view(101, 101).expand(len(data.test_y), -1, -1)
    stream = Mnist360(replace(data, train_x=x, test_x=tested))
    batch = stream.pick(SEEDS[:1], 0, stream.order(SEEDS[:1], 0, 0, 0, TOTAL))
    for digit in range(9):
        images = batch.x[batch.y == digit].flatten(1)
        assert len({bytes(image.tolist()) for image in images}) == COUNTS[digit]


def test_the_split_into_groups_is_random(shown: Tensor) -> None:
    assert len({tuple(row) for row in shown.tolist()}) == 3
    assert not torch.equal(shown[0], shown[0].sort().values)


def test_a_run_of_a_fleet_equals_the_run_alone_in_any_chunk(stream: Mnist360) -> None:
    fleet = stream.pick(SEEDS, 0, stream.order(SEEDS, 0, 0, 30, 60))
    for k, seed in enumerate(SEEDS):
        for start in (30, 45):
            index = stream.order(seed[None], 0, 0, start, start + 15)
            alone = stream.pick(seed[None], 0, index)
            assert torch.equal(fleet.x[k, start - 30 : start - 15], alone.x[0])
            assert torch.equal(fleet.y[k, start - 30 : start - 15], alone.y[0])


def test_runs_may_ask_for_different_places(stream: Mnist360) -> None:
    index = torch.stack([torch.arange(5), torch.arange(90, 95), torch.tensor([7, 3, 9, 200, 0])])
    mixed = stream.pick(SEEDS, torch.zeros(3, 5).long(), index)
    for k in range(3):
        alone = stream.pick(SEEDS[k : k + 1], 0, index[k : k + 1])
        assert torch.equal(mixed.x[k], alone.x[0])
        assert torch.equal(mixed.y[k], alone.y[0])


def test_the_test_set_turns_without_offset_and_is_shared(stream: Mnist360) -> None:
    test = stream.test(SEEDS, 0)
    ids = (stream.dataset.test_y < 9).nonzero().flatten().tolist()
    assert test.x.shape == (1, len(ids), 5, 5)
    assert test.y[0].tolist() == stream.dataset.test_y[ids].tolist()
    seen = [0] * 9
    for place, i in enumerate(ids):
        digit = int(stream.dataset.test_y[i])
        count = int((stream.dataset.test_y == digit).sum())
        turn = torch.tensor([[2 * math.pi * seen[digit] / count]], dtype=torch.float64)
        seen[digit] += 1
        assert torch.equal(
            test.x[0, place], rotate(stream.dataset.test_x[i][None, None], turn)[0, 0]
        )


def test_it_is_a_general_stream(stream: Mnist360) -> None:
    as_stream: Stream = stream
    assert (as_stream.setting, as_stream.boundaries, as_stream.tasks) == ("general", False, 1)
    assert (as_stream.classes, as_stream.shape, as_stream.dtype) == (10, (5, 5), torch.uint8)
    assert as_stream.task_classes(0) == tuple(range(9))


def test_too_few_examples_of_a_digit_are_refused() -> None:
    data = fake_digits()
    kept = data.train_y != 4
    with pytest.raises(InputError, match="at least 6 training examples of each digit"):
        Mnist360(replace(data, train_x=data.train_x[kept], train_y=data.train_y[kept]))
