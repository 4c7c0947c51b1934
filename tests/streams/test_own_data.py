"""Augmentation, class orders, views and validation of streams of one's own."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import recollect
from recollect import from_arrays
from recollect.core.images import Images
from recollect.errors import InputError
from recollect.streams import Joint, TaskStream
from recollect.streams.stream import has_task_il
from recollect.testing import check_stream
from recollect.train.fingerprint import stream_fingerprint

RNG = np.random.default_rng(0)
SEEDS = torch.tensor([3, 1, 8])
Y = np.arange(120) % 4
GREY = RNG.integers(0, 256, (120, 6, 6), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (120, 3, 6, 6), dtype=np.uint8)


def test_images_are_normalised_by_the_training_set() -> None:
    for x in (GREY, COLOUR, (COLOUR / 255).astype(np.float32)):
        stream = from_arrays(x, Y, normalise=True)
        assert isinstance(stream.images, Images)
        seen = stream.images.plain(stream.train_x[None])
        assert seen.shape == (1, 96, *x.shape[1:])
        planes = seen[0].view(96, -1, 36)
        assert planes.mean((0, 2)).abs().max() < 1e-5
        assert (planes.std((0, 2)) - 1).abs().max() < 1e-3


def test_grey_images_are_augmented_as_those_with_one_channel() -> None:
    images = Images((0.5,), (0.25,), padding=2)
    x, views = torch.from_numpy(GREY)[None], torch.arange(120)[None] % 50
    assert torch.equal(images.augment(x, views), images.augment(x[:, :, None], views)[:, :, 0])
    assert torch.equal(images.plain(x), images.plain(x[:, :, None])[:, :, 0])


def test_crop_and_flip_alone_leave_values_as_they_are() -> None:
    stream = from_arrays(GREY, Y, crop=1, flip=True)
    assert isinstance(stream.images, Images)
    assert torch.allclose(stream.images.plain(stream.train_x[None])[0], stream.train_x / 255)
    assert (stream.images.padding, stream.images.flip) == (1, True)


def noisy(x: Tensor, scale: float = 0.5) -> Tensor:
    return x + scale * torch.randn_like(x)


def network() -> nn.Module:
    return recollect.MLP(36, 4, hidden=(8,))


@pytest.mark.parametrize(
    "options",
    [{"crop": 1, "flip": True}, {"transform": noisy, "replay_transform": noisy}],
    ids=["images", "transform"],
)
def test_a_run_of_a_fleet_is_the_run_alone(options: dict[str, Any]) -> None:
    stream = from_arrays(GREY, Y, **options)
    train = partial(recollect.run, stream, "er", buffer=20, lr=0.1, network=network, workers=1)
    together, alone = train(seeds=[0, 5]), train(seeds=[5])
    assert together[1].matrix == alone[0].matrix
    plain = recollect.run(
        from_arrays(GREY, Y), "er", buffer=20, lr=0.1, network=network, workers=1, seeds=[5]
    )
    assert plain[0].matrix != alone[0].matrix, "what is learned differs"


def test_replays_are_transformed_by_their_own_function() -> None:
    sizes: dict[str, list[int]] = {"arriving": [], "replayed": []}

    def note(x: Tensor, name: str) -> Tensor:
        sizes[name].append(len(x))
        return x

    stream = from_arrays(
        GREY, Y, transform=partial(note, name="arriving"),
        replay_transform=partial(note, name="replayed"),
    )  # fmt: skip
    recollect.run(stream, "er", buffer=20, lr=0.1, seeds=2, workers=1, bs=8)
    assert sizes["arriving"] == [8] * 24, "two runs of twelve steps"
    assert sizes["replayed"] == [8] * 22, "the memory is empty at the first step"


def scaled(scale: float) -> Any:
    return lambda x: scale * x


def test_a_transform_is_part_of_the_fingerprint() -> None:
    def documented(x: Tensor) -> Tensor:
        """Say something."""
        return x * FACTOR["one"]

    transforms = [
        None, noisy, partial(noisy, scale=0.1), scaled(1.0), scaled(2.0), documented, nn.Identity(),
        nn.Threshold(0.1, 0.0), nn.Threshold(0.2, 0.0),
    ]  # fmt: skip
    names = [stream_fingerprint(from_arrays(GREY, Y, transform=each)) for each in transforms]
    assert len(set(names)) == len(names)
    again = [stream_fingerprint(from_arrays(GREY, Y, transform=each)) for each in transforms]
    assert names == again
    FACTOR["one"] = 3.0
    try:
        other = stream_fingerprint(from_arrays(GREY, Y, transform=documented))
    finally:
        FACTOR["one"] = 1.0
    assert other != names[5], "a value that it refers to"


FACTOR = {"one": 1.0}


def test_a_given_order_of_classes() -> None:
    assert from_arrays(GREY, Y, class_order=[3, 1, 0, 2]).classes_of == ((3, 1), (0, 2))
    one, same, *others = (
        from_arrays(GREY, Y, class_order=seed).classes_of for seed in (1, 1, *range(2, 12))
    )
    assert one == same
    assert len(set(others)) > 3


def orders(stream: TaskStream, seeds: Tensor) -> list[list[int]]:
    """Which true classes come, by what the examples hold, for each run."""
    found: list[list[int]] = [[] for _ in seeds]
    for task in range(stream.tasks):
        index = torch.arange(sum(stream.parts(task))).repeat(len(seeds), 1)
        batch, test = stream.pick(seeds, task, index), stream.test(seeds, task)
        for run, classes in enumerate(found):
            for label in stream.task_classes(task):
                for x, y in ((batch.x, batch.y), (test.x, test.y)):
                    (true,) = set(x[run][y[run] == label][:, 0].tolist())
                    classes.append(int(true))
    return found


def test_every_seed_has_its_own_order_of_classes() -> None:
    y = np.repeat(np.arange(6), [30, 40, 50, 30, 35, 45])
    x = np.stack([y, np.arange(len(y))], 1).astype(np.float32)
    stream = from_arrays(x, y, class_order="seed")
    assert stream.classes_of == ((0, 1), (2, 3), (4, 5))
    assert [stream.parts(task) for task in range(3)] == [(48,)] * 3, "as the smallest class has"
    seeds = torch.arange(20)
    found = orders(stream, seeds)
    for order in found:
        assert order[::2] == order[1::2], "training and test examples are of the same class"
        assert sorted(set(order)) == list(range(6))
    assert len({tuple(order) for order in found}) > 15
    assert orders(stream, seeds[7:8])[0] == found[7], "whatever other runs there are"
    first = torch.tensor([order[0] for order in orders(stream, torch.arange(600))])
    assert torch.bincount(first, minlength=6).min() > 60, "any class may be the first"
    split = stream.validation()
    assert orders(split, seeds) == found
    for seed in seeds:
        for task in range(3):
            count = torch.arange(sum(split.parts(task)))[None]
            trained = split.pick(seed[None], task, count).x[0, :, 1].tolist()
            tested = split.test(seed[None], task).x[0, :, 1].tolist()
            assert len({*trained, *tested}) == len(trained) + len(tested) == 48


def test_a_fleet_with_an_order_of_classes_per_seed_is_the_runs_alone() -> None:
    stream = from_arrays(GREY, Y, class_order="seed")
    train = partial(recollect.run, stream, "derpp", buffer=20, lr=0.1, workers=1, network=network)
    together, alone = train(seeds=[0, 5]), train(seeds=[5])
    assert together[1].matrix == alone[0].matrix
    assert sorted(together[0].accuracy) == ["class", "task"]


@pytest.mark.parametrize("x", [GREY, COLOUR, COLOUR.astype(np.float32)], ids=["L", "RGB", "float"])
def test_rotated_images(x: Any) -> None:
    stream = from_arrays(x, Y, scenario="rotated", tasks=3)
    check_stream(stream)
    check_stream(stream.validation(), whole=stream)
    channels = x.reshape(120, -1, 6, 6)
    grey = from_arrays(channels[:, 0].astype(x.dtype), Y, scenario="rotated", tasks=3)
    index = torch.arange(20).repeat(3, 1)
    ours, theirs = stream.pick(SEEDS, 1, index), grey.pick(SEEDS, 1, index)
    assert torch.equal(ours.x.view(3, 20, -1, 6, 6)[:, :, 0], theirs.x)
    test = stream.test(SEEDS, 1).x.view(3, 24, -1, 6, 6)[:, :, 0]
    assert torch.equal(test, grey.test(SEEDS, 1).x)
    assert stream.train_ids[0] is stream.train_ids[2], "no copies"


def test_permuted_vectors_and_colours() -> None:
    for x in (COLOUR, RNG.random((120, 7)).astype(np.float32)):
        stream = from_arrays(x, Y, scenario="permuted", tasks=2)
        check_stream(stream)
        seen = stream.pick(SEEDS, 1, torch.arange(9).repeat(3, 1)).x
        plain = stream.train_x[:9]
        assert torch.equal(seen[0].flatten(1).sort().values, plain.flatten(1).sort().values)
        assert not torch.equal(seen[0], plain)
        assert (stream.setting, stream.tasks) == ("domain", 2)


def test_a_validation_split_is_a_share_of_each_class_of_each_task() -> None:
    stream = from_arrays(GREY, Y)
    split = stream.validation()
    assert [split.parts(task) for task in range(2)] == [(44,)] * 2
    assert torch.bincount(split.test_y[torch.cat(split.test_ids)]).tolist() == [2] * 4
    check_stream(split, whole=stream)
    half = stream.validation(0.5)
    assert half.parts(0) == (24,)
    assert split.train_x is split.test_x is stream.train_x, "no copies"


def test_run_takes_a_validation_split_of_a_stream() -> None:
    stream = from_arrays(GREY, Y)
    (result,) = recollect.run(stream, "sgd", seeds=1, validation=True, network=network)
    (expected,) = recollect.run(stream.validation(), "sgd", seeds=1, network=network)
    assert result.validation
    assert result.matrix == expected.matrix
    with pytest.raises(InputError, match="a Joint has no validation split: give it a method"):
        recollect.run(Joint(stream), "sgd", seeds=1, validation=True)


@pytest.mark.parametrize("classes", [Y, np.where(Y == 3, 0, Y)], ids=["all", "some"])
def test_tasks_that_share_classes_have_no_task_il(classes: Any) -> None:
    stream = from_arrays(
        GREY, classes, scenario="task", task_ids=np.arange(120) // 4 % 2, classes=4
    )
    assert not has_task_il(stream)
    (result,) = recollect.run(stream, "sgd", seeds=1, network=network)
    assert sorted(result.accuracy) == ["class"]
    with pytest.raises(InputError, match="share classes"):
        recollect.run(stream, "hat", seeds=1)


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "both": ({"crop": 1, "transform": noisy}, "do not go with a transform of your own"),
    "no image": ({"x": GREY.reshape(120, 36), "flip": True}, "are for images"),
    "crop": ({"crop": 6}, "crop=6 must be a number of pixels from 0 to 5"),
    "negative crop": ({"crop": -1}, "crop=-1 must be"),
    "statistics": ({"normalise": ((0.5, 0.5), (1.0, 1.0))}, "for each of 1 channels"),
    "spread": ({"normalise": ((0.5,), (0.0,))}, "standard deviation above 0"),
    "no pair": ({"normalise": 0.5}, "True or a pair"),
    "no function": ({"transform": 3}, "transform must be a function of a batch, not 3"),
    "order": ({"class_order": [0, 1, 2]}, r"class_order=\[0, 1, 2\] must have every class once"),
    "order by name": ({"class_order": "seeds"}, "class_order is 'seeds': pass 'seed'"),
    "order and tasks": ({"class_order": 1, "tasks": [[0, 1], [2, 3]]}, "leave class_order out"),
    "order of domains": ({"class_order": 1, "scenario": "arrival"}, "applies to scenario 'class'"),
    "untested class": (
        {"class_order": "seed", "test": (GREY[[0, 2]], Y[[0, 2]])},
        r"none of the classes \[1, 3\]",
    ),
    "how many": ({"scenario": "rotated"}, "scenario 'rotated' needs tasks=, the number"),
    "vectors": (
        {"x": GREY.reshape(120, 36), "scenario": "rotated", "tasks": 2},
        "to be rotated, examples must be images",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_used_is_refused_in_a_sentence(case: str) -> None:
    given, message = REFUSALS[case]
    arguments: dict[str, Any] = {"x": GREY, "y": Y, **given}
    with pytest.raises(InputError, match=message):
        from_arrays(**arguments)


def test_images_with_channels_last_are_refused() -> None:
    x = np.zeros((40, 8, 8, 3), np.uint8)
    with pytest.raises(InputError, match=r"shape \[8, 8, 3\], which looks like .* channels last"):
        from_arrays(x, np.arange(40) % 4, crop=1, flip=True)
    with pytest.raises(InputError, match=r"shape \[8, 8, 3\], which looks like .* channels last"):
        from_arrays(x, np.arange(40) % 4, scenario="rotated", tasks=2)
    assert from_arrays(x, np.arange(40) % 4, scenario="permuted", tasks=2).shape == (8, 8, 3)
    assert from_arrays(x.transpose(0, 3, 1, 2), np.arange(40) % 4, crop=1).shape == (3, 8, 8)


def test_a_class_that_is_not_tested_is_refused() -> None:
    x, y = np.zeros((40, 6), np.float32), np.arange(40) % 4
    with pytest.raises(InputError, match=r"no test examples of the classes \[3\] in task 1"):
        from_arrays(x, y, test=(x[y != 3], y[y != 3]))


def test_labels_that_no_example_has_are_said() -> None:
    x, y = np.zeros((40, 6), np.float32), np.arange(40) % 4 + 1
    with pytest.warns(UserWarning, match=r"lowest label is 1, so 1 of 5 outputs are never used"):
        assert from_arrays(x, y).classes == 5
    assert from_arrays(x, y, classes=5).classes == 5
