"""Views of pixels: permutations are permutations, rotations are what a slow loop says."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from recollect.streams import pixels
from recollect.streams.pixels import PixelMap, angle, permutation, pixel_map, rotate, through

WORD = st.integers(0, 2**40)


def slowly_rotated(image: Tensor, radians: float) -> Tensor:
    """Turn each pixel's position back about the centre and take the nearest pixel there."""
    height, width = image.shape
    middle_row, middle_column = (height - 1) / 2, (width - 1) / 2
    result = torch.zeros_like(image)
    for row in range(height):
        for column in range(width):
            right, up = column - middle_column, middle_row - row
            # The point that a counter-clockwise turn brings here, with y pointing up.
            from_right = math.cos(radians) * right + math.sin(radians) * up
            from_up = -math.sin(radians) * right + math.cos(radians) * up
            from_row = math.floor(middle_row - from_up + 0.5)
            from_column = math.floor(middle_column + from_right + 0.5)
            if 0 <= from_row < height and 0 <= from_column < width:
                result[row, column] = image[from_row, from_column]
    return result


def image_of(height: int, width: int) -> Tensor:
    return torch.arange(1, height * width + 1, dtype=torch.uint8).view(height, width)


@settings(max_examples=50)
@given(st.floats(0.001, 6.28), st.integers(1, 9), st.integers(1, 9))
def test_rotation_equals_a_slow_loop(radians: float, height: int, width: int) -> None:
    image = image_of(height, width)
    turned = rotate(image[None, None], torch.tensor([[radians]], dtype=torch.float64))
    # Where the slow loop itself hangs on a rounding error there is no right answer.
    stable = slowly_rotated(image, radians - 1e-7) == slowly_rotated(image, radians + 1e-7)
    assert torch.equal(turned[0, 0][stable], slowly_rotated(image, radians)[stable])
    assert stable.float().mean() > 0.5


@pytest.mark.parametrize("size", [8, 9, 28])
@pytest.mark.parametrize("quarters", [-1, 0, 1, 2, 3, 4])
def test_quarter_turns_are_exact_and_counter_clockwise(size: int, quarters: int) -> None:
    image = torch.arange(size * size).remainder(251).to(torch.uint8).view(size, size)
    turned = rotate(
        image[None, None], torch.tensor([[quarters * math.pi / 2]], dtype=torch.float64)
    )
    assert torch.equal(turned[0, 0], image.rot90(quarters))


def test_an_eighth_turn_leaves_the_corners_black() -> None:
    turned = rotate(torch.ones(1, 1, 28, 28), torch.tensor([[math.pi / 4]]))[0, 0]
    assert turned[0, 0] == turned[0, -1] == turned[-1, 0] == turned[-1, -1] == 0
    assert turned[14, 0] == turned[14, 14] == 1


def test_each_example_has_its_own_angle_in_chunks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    images = torch.randint(0, 256, (2, 7, 5, 5), dtype=torch.uint8)
    angles = torch.linspace(0.1, 6.0, 14, dtype=torch.float64).view(2, 7)
    whole = rotate(images, angles)
    monkeypatch.setattr(pixels, "CHUNK", 2 * 25 * 2)
    assert torch.equal(rotate(images, angles), whole)
    for run in range(2):
        for place in range(7):
            expected = slowly_rotated(images[run, place], float(angles[run, place]))
            assert torch.equal(whole[run, place], expected)


def test_shared_angles_are_those_of_every_run() -> None:
    images = torch.randint(0, 256, (3, 4, 6, 6), dtype=torch.uint8)
    angles = torch.linspace(0.1, 3.0, 4)[None]
    assert torch.equal(rotate(images, angles), rotate(images, angles.expand(3, 4)))


@given(WORD, st.integers(0, 30), st.integers(1, 200))
def test_a_permutation_is_one(seed: int, task: int, size: int) -> None:
    source = permutation(torch.tensor([seed]), torch.tensor([task]), size).source
    assert torch.equal(source.sort().values, torch.arange(size).expand(1, 1, -1))


def test_permutations_and_angles_differ_by_seed_and_task() -> None:
    seeds, tasks = torch.arange(20), torch.arange(20)
    maps = permutation(seeds, tasks, 64).source.flatten(0, 1)
    angles = angle(seeds, tasks).flatten()
    assert len({tuple(row) for row in maps.tolist()}) == 400
    assert len(set(angles.tolist())) == 400
    # The first task is permuted too: a random permutation of 64 has one fixed point on average.
    assert (maps == torch.arange(64)).double().sum(1).mean() < 2


def test_angles_are_uniform_over_half_a_turn() -> None:
    angles = angle(torch.arange(1000), torch.arange(20)).flatten() / math.pi
    assert angles.dtype == torch.float64
    assert 0 <= angles.min() < 0.001
    assert 0.999 < angles.max() < 1
    counts = torch.histc(angles.float(), bins=10, min=0, max=1)
    chi_square = ((counts - 2000) ** 2 / 2000).sum()
    assert chi_square < 27.9  # one in a thousand, nine degrees of freedom


@pytest.mark.parametrize("view", ["permuted", "rotated"])
def test_a_run_has_the_same_map_in_any_company(view: pixels.View) -> None:
    fleet = pixel_map(view, (3, 1, 7), (0, 5), 8, 8, "cpu")
    alone = pixel_map(view, (1,), (5,), 8, 8, "cpu")
    assert torch.equal(fleet.source[1:2, 1:2], alone.source)
    if fleet.inside is not None:
        assert alone.inside is not None
        assert torch.equal(fleet.inside[1:2, 1:2], alone.inside)


def test_the_map_to_the_same_pixels_changes_nothing() -> None:
    images = torch.randint(0, 256, (2, 3, 4, 5), dtype=torch.uint8)
    assert torch.equal(through(images, PixelMap(torch.arange(20))), images)


def test_a_masked_pixel_is_black() -> None:
    seen = PixelMap(torch.tensor([0, 1]), torch.tensor([1, 0], dtype=torch.uint8))
    images = torch.tensor([[[5, 6]]], dtype=torch.uint8)
    assert through(images, seen).tolist() == [[[5, 0]]]
    assert images.tolist() == [[[5, 6]]]
