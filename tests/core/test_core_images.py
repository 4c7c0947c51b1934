"""Images as a network reads them: padded, cropped, flipped and normalised, anew at every step."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from recollect import ER, DERpp, Fleet, Method
from recollect.core.images import Images
from recollect.core.random import Purpose, coming_bits

SMALL = 1e-4  # a chance below this is no accident; nothing here changes from one day to the next
MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
Place = tuple[int, int, bool]  # rows from the top of the padded image, columns, whether flipped


def raw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, shape, dtype=torch.uint8, generator=generator)


def places(images: Images) -> list[Place]:
    """Everywhere that an image can be cropped."""
    offsets = range(2 * images.padding + 1)
    return list(product(offsets, offsets, (False, True) if images.flip else (False,)))


def by_hand(image: Tensor, images: Images, place: Place) -> Tensor:
    """One image `[C, H, W]`, pixel by pixel."""
    down, right, flipped = place
    channels, height, width = image.shape
    wide = [[[0] * (width + 2 * images.padding) for _ in range(height + 2 * images.padding)]
            for _ in range(channels)]  # fmt: skip
    for c, h, w in product(range(channels), range(height), range(width)):
        wide[c][h + images.padding][w + images.padding] = int(image[c, h, w])
    crop = [[row[right : right + width] for row in rows[down : down + height]] for rows in wide]
    if flipped:
        crop = [[row[::-1] for row in rows] for rows in crop]
    return torch.tensor(
        [
            [[(pixel / 255 - mean) / std for pixel in row] for row in rows]
            for rows, mean, std in zip(crop, images.mean, images.std, strict=True)
        ],
        dtype=torch.float64,
    )


def drawn(images: Images, seeds: Tensor, step: int, steps: int, rows: int) -> Tensor:
    """The views of the coming steps, as a fleet plans them, `[steps, K, rows]`."""
    return images.view_of(coming_bits(seeds, Purpose.VIEW, step, steps, rows))


def all_views(image: Tensor, images: Images, dtype: torch.dtype = torch.float64) -> Tensor:
    """One image `[C, H, W]` in all its views, `[views, C, H, W]`."""
    views = torch.arange(len(places(images)))[None]
    return images.augment(image.expand(1, views.shape[1], *image.shape), views, dtype)[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("images", "shape"),
    [
        (Images(MEAN, STD, padding=2), (3, 5, 6)),
        (Images(MEAN, STD, padding=1, flip=False), (3, 4, 3)),
        (Images(MEAN, STD, padding=0), (3, 4, 5)),
        (Images(MEAN, STD, padding=0, flip=False), (3, 3, 3)),
        (Images((0.1,), (0.3,), padding=3), (1, 4, 4)),
    ],
)
def test_the_views_are_every_crop_of_the_padded_image_once(
    images: Images, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    """From corner to corner, each as it is and flipped."""
    image = raw(*shape) // 2 + 100  # no black pixel, which could pass for padding
    ours = all_views(image, images, dtype)
    theirs = torch.stack([by_hand(image, images, place) for place in places(images)])
    assert ours.dtype == dtype
    distance = (ours[:, None].double() - theirs[None]).abs().flatten(2).amax(2)
    nearest = distance.min(1)
    assert float(nearest.values.max()) < (1e-5 if dtype == torch.float32 else 1e-12)
    assert nearest.indices.sort().values.tolist() == list(range(len(theirs)))


def test_every_image_of_every_run_has_its_own_view() -> None:
    images = Images(MEAN, STD, padding=1)
    x = raw(2, 3, 3, 4, 5)
    before = x.clone()
    views = torch.tensor([[0, 17, 4], [9, 8, 3]])
    seen = images.augment(x, views, torch.float64)
    for run, row in product(range(2), range(3)):
        alone = all_views(x[run, row], images)[views[run, row]]
        assert torch.equal(seen[run, row], alone)
    assert torch.equal(x, before)


def test_a_view_keeps_its_meaning_for_ever() -> None:
    """If this fails, every published number changes: do not just repin it."""
    images, image = Images(MEAN, STD), raw(3, 6, 6)
    meaning = {
        0: (0, 0, False), 8: (8, 0, False), 9: (0, 1, False), 40: (4, 4, False),
        80: (8, 8, False), 81: (0, 0, True), 130: (4, 5, True), 161: (8, 8, True),
    }  # fmt: skip
    seen = all_views(image, images)
    for view, place in meaning.items():
        torch.testing.assert_close(seen[view], by_hand(image, images, place), rtol=0, atol=1e-12)
    assert drawn(images, torch.tensor([0, 7]), step=3, steps=1, rows=5).tolist() == [
        [[93, 44, 158, 140, 144], [2, 76, 44, 124, 149]]
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("runs", [1, 3])
def test_plain_images_are_only_normalised(runs: int, dtype: torch.dtype) -> None:
    images = Images(MEAN, STD, padding=2)
    x = raw(runs, 4, 3, 4, 5)
    plain = images.plain(x, dtype)
    assert (plain.shape, plain.dtype) == (x.shape, dtype)
    for run, row in product(range(runs), range(4)):
        expected = by_hand(x[run, row], images, (2, 2, False))
        torch.testing.assert_close(plain[run, row].double(), expected, rtol=0, atol=1e-5)
    if dtype == torch.float64:
        centre = all_views(x[0, 0], images)
        assert sum(torch.equal(plain[0, 0], view) for view in centre) == 1


def test_channels_lie_last() -> None:
    """As convolutions on a GPU want them; the shape says channels first all the same."""
    images = Images(MEAN, STD, padding=1)
    x = raw(2, 4, 3, 5, 6)
    for seen in (images.augment(x, torch.zeros(2, 4, dtype=torch.int64)), images.plain(x)):
        assert seen.shape == (2, 4, 3, 5, 6)
        assert seen.flatten(0, 1).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("images", [Images(MEAN, STD), Images(MEAN, STD, padding=0)])
def test_views_are_uniform(images: Images, chance: Callable[..., float]) -> None:
    count = len(places(images))
    views = drawn(images, torch.arange(20), step=0, steps=100, rows=32)
    assert views.shape == (100, 20, 32)
    counts = views.flatten().bincount(minlength=count)
    assert len(counts) == count
    assert chance(counts) > SMALL


@pytest.mark.parametrize("axis", ["step", "run", "row"])
def test_views_of_neighbours_are_independent(axis: str, chance: Callable[..., float]) -> None:
    views = drawn(Images(MEAN, STD, padding=1), torch.arange(33), step=5, steps=33, rows=33)
    dimension = ["step", "run", "row"].index(axis)
    first, second = views.narrow(dimension, 0, 32), views.narrow(dimension, 1, 32)
    assert chance((first * 18 + second).flatten().bincount(minlength=18 * 18)) > SMALL


def test_views_depend_on_seed_step_and_row_alone() -> None:
    images = Images(MEAN, STD)
    seeds = torch.tensor([3, 2**40, 0])
    fleet = drawn(images, seeds, step=10, steps=6, rows=8)
    for run in range(3):
        assert torch.equal(fleet[:, run : run + 1], drawn(images, seeds[run : run + 1], 10, 6, 8))
    one_by_one = [drawn(images, seeds, step, 1, 8) for step in range(10, 16)]
    assert torch.equal(fleet, torch.cat(one_by_one))
    assert torch.equal(fleet[..., :5], drawn(images, seeds, 10, 6, rows=5))
    for changed in (drawn(images, seeds + 1, 10, 6, 8), drawn(images, seeds, 16, 6, 8)):
        assert (fleet == changed).double().mean() < 0.1
    assert (fleet[..., :-1] == fleet[..., 1:]).double().mean() < 0.1


class Watching(nn.Module):
    """A network that notes what it is given in training and in testing."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(18, 4))
        self.given: dict[bool, list[Tensor]] = {True: [], False: []}

    def forward(self, x: Tensor) -> Tensor:
        self.given[self.training].append(x.detach().clone())
        logits: Tensor = self.layers(x)
        return logits


def fleet_of(*methods: Method, seeds: list[int], **changes: Any) -> Fleet:
    settings = {
        "lr": [0.1] * len(seeds), "classes": 4, "shape": (3, 5, 5), "memory": 6, "replay": 6,
        "stored": torch.uint8, "images": Images(MEAN, STD, padding=2), "dtype": torch.float64,
    }  # fmt: skip
    return Fleet(methods, Watching, seeds=seeds, **{**settings, **changes})


@pytest.mark.parametrize("method", [ER(), DERpp()])
def test_memory_keeps_images_as_they_came(method: Method) -> None:
    x = raw(2, 40, 3, 5, 5)
    y = torch.arange(40).expand(2, -1) % 4
    fleet = fleet_of(method, method, seeds=[0, 1], memory=40)
    fleet.learn(x, y, batch=4)
    assert fleet.memory.fields().x.dtype == torch.uint8
    assert torch.equal(fleet.memory.fields().x, x)
    small = fleet_of(method, method, seeds=[0, 1])
    small.learn(x, y, batch=4)
    for run in range(2):
        for image in small.memory.fields().x[run]:
            assert any(torch.equal(image, original) for original in x[run])


def test_the_same_memories_are_augmented_anew_at_every_step() -> None:
    """What the network reads is a view of what is kept, never a view of a view."""
    fleet = fleet_of(ER(), seeds=[4])
    network = fleet.network.module
    assert isinstance(network, Watching)
    fleet.learn(raw(1, 6, 3, 5, 5), torch.arange(6)[None] % 4, batch=6)
    met: dict[int, set[int]] = {slot: set() for slot in range(6)}
    for step in range(12):
        # What arrives is taken out of the memory again, so that it stays the same throughout.
        kept = {name: tensor.clone() for name, tensor in fleet.memory.tensors.items()}
        possible = [all_views(image, fleet.images) for image in kept["x"][:6]]  # type: ignore[arg-type]
        network.given[True].clear()
        arriving = raw(1, 2, 3, 5, 5, seed=step + 1)
        fleet.learn(arriving, torch.zeros(1, 2, dtype=torch.int64), batch=2)
        fleet.memory.tensors.update(kept)
        (given,) = network.given[True]
        assert given.shape == (8, 3, 5, 5)
        for image, row in zip(arriving[0], given, strict=False):
            views = all_views(image, Images(MEAN, STD, padding=2))
            assert any(torch.equal(row, view) for view in views)
        slots = []
        for row in given[2:]:
            ((slot, view),) = [
                (slot, number)
                for slot, views in enumerate(possible)
                for number, view in enumerate(views)
                if torch.equal(row, view)
            ]
            slots.append(slot)
            met[slot].add(view)
        assert sorted(slots) == list(range(6)), "the whole memory is replayed"
    assert all(len(views) >= 8 for views in met.values())


def test_a_test_reads_plain_images() -> None:
    fleet = fleet_of(ER(), seeds=[4])
    network = fleet.network.module
    assert isinstance(network, Watching)
    network.given[False].clear()
    x = raw(1, 3, 3, 5, 5)
    assert torch.equal(fleet.logits(x), fleet.logits(x))
    for given in network.given[False]:
        assert torch.equal(given, Images(MEAN, STD, padding=2).plain(x, torch.float64)[0])


def test_a_run_meets_the_same_views_in_any_fleet() -> None:
    x, y = raw(3, 20, 3, 5, 5), torch.arange(20).expand(3, -1) % 4
    together = fleet_of(ER(), ER(), ER(), seeds=[5, 0, 9])
    together.learn(x, y, batch=4)
    for run, seed in enumerate([5, 0, 9]):
        alone = fleet_of(ER(), seeds=[seed])
        alone.learn(x[run : run + 1], y[run : run + 1], batch=4)
        for both, one in zip(together.weights, alone.weights, strict=True):
            torch.testing.assert_close(both[run], one[0], rtol=0, atol=1e-9)
