"""The registry, and the split for choosing hyper-parameters."""

from __future__ import annotations

import pytest
import torch

from recollect.errors import InputError
from recollect.streams import Joint, TaskStream
from recollect.streams.benchmarks import BENCHMARKS, benchmark, hold_out
from recollect.streams.data import Dataset, load
from recollect.streams.stream import Stream

DIGITS = [name for name in BENCHMARKS if "digits" in name]
SEEDS = torch.tensor([3, 1, 7])


def fake(count: int) -> Dataset:
    """Images that number themselves in two bytes."""
    numbers = torch.arange(count)
    x = torch.stack([numbers // 256, numbers % 256], 1).to(torch.uint8).view(count, 1, 2)
    return Dataset("fake", 10, x, numbers % 10, x[:1], numbers[:1])


def numbers_of(images: torch.Tensor) -> list[int]:
    return [int(first) * 256 + int(second) for first, second in images.flatten(1).tolist()]


@pytest.mark.parametrize("count", [10, 999, 1438])
def test_validation_is_a_tenth_of_the_training_set(count: int) -> None:
    split = hold_out(fake(count))
    kept, held = numbers_of(split.train_x), numbers_of(split.test_x)
    assert len(held) == count // 10
    assert sorted(kept + held) == list(range(count))
    assert split.train_y.tolist() == [number % 10 for number in kept]
    assert split.test_y.tolist() == [number % 10 for number in held]
    assert numbers_of(hold_out(fake(count)).test_x) == held


def test_validation_is_drawn_at_random() -> None:
    held = torch.tensor(numbers_of(hold_out(fake(5000)).test_x)).double()
    # The mean of 500 of 0..4999 without replacement has the standard deviation 61.
    assert abs(held.mean() - 2499.5) < 4 * 61
    assert set(hold_out(fake(5000)).test_y.tolist()) == set(range(10))


@pytest.mark.parametrize("name", DIGITS)
def test_streams_are_what_the_registry_says(name: str) -> None:
    spec = benchmark(name)
    stream = spec.stream()
    assert (stream.name, stream.setting, stream.tasks) == (name, spec.setting, spec.tasks)
    assert (stream.classes, stream.shape, stream.dtype) == (10, (8, 8), torch.uint8)
    assert spec.stands_in is not None
    twin = benchmark(spec.stands_in)
    assert (spec.paper, spec.setting, spec.tasks) == (twin.name, twin.setting, twin.tasks)
    assert spec.replay == spec.batch
    assert ("32 instead of 128" in spec.description) == (spec.batch != twin.batch)


@pytest.mark.parametrize("name", DIGITS)
def test_validation_replaces_the_test_set(name: str) -> None:
    stream, searched = benchmark(name).stream(), benchmark(name).stream(validation=True)
    full, rest = examples(stream), examples(searched)
    assert full > rest >= 0.88 * full
    test_sets = [searched.test(SEEDS, task) for task in range(searched.tasks)]
    assert {len(test.y[0]) for test in test_sets} != {
        len(stream.test(SEEDS, task).y[0]) for task in range(stream.tasks)
    }


def examples(stream: Stream) -> int:
    return sum(sum(stream.parts(task)) for task in range(stream.tasks))


def test_seq_has_tasks_of_two_classes() -> None:
    stream = benchmark("seq-digits").stream()
    assert [stream.task_classes(t) for t in range(5)] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    assert examples(stream) == len(load("digits").train_y)
    for task in range(5):
        assert set(stream.test(SEEDS, task).y[0].tolist()) == set(stream.task_classes(task))


@pytest.mark.parametrize(("name", "view"), [("perm-digits", "permuted"), ("rot-digits", "rotated")])
def test_domains_show_everything_in_every_task(name: str, view: str) -> None:
    stream = benchmark(name).stream()
    assert isinstance(stream, TaskStream)
    assert stream.view == view
    assert all(stream.parts(task) == (1438,) for task in range(20))
    assert stream.task_classes(19) == tuple(range(10))


def test_the_papers_batches() -> None:
    sizes = {name: (spec.batch, spec.replay, spec.epochs) for name, spec in BENCHMARKS.items()}
    assert sizes == {
        "seq-mnist": (10, 10, 1),
        "perm-mnist": (128, 128, 1),
        "rot-mnist": (128, 128, 1),
        "mnist-360": (16, 16, 1),
        "seq-cifar10": (32, 32, 50),
        "seq-tiny-imagenet": (32, 32, 100),
        "seq-cifar100": (32, 32, 50),
        "seq-fashion-mnist": (10, 10, 1),
        "online-cifar10": (10, 64, 1),
        "online-cifar100": (10, 64, 1),
        "seq-digits": (10, 10, 1),
        "perm-digits": (32, 32, 1),
        "rot-digits": (32, 32, 1),
        "digits-360": (16, 16, 1),
    }


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        InputError, match="unknown benchmark 'perm-mist': did you mean 'perm-mnist'"
    ):
        benchmark("perm-mist")


def test_every_stream_is_one_for_the_type_checker_and_in_joint() -> None:
    streams: list[Stream] = [benchmark(name).stream() for name in DIGITS]
    assert [Joint(stream).name for stream in streams] == DIGITS


def test_a_number_stands_for_one_order_of_the_classes() -> None:
    stream = benchmark("seq-digits").stream(class_order=7)
    groups = [stream.task_classes(task) for task in range(5)]
    assert sorted(label for group in groups for label in group) == list(range(10))
    assert groups != _usual()
    for task in range(5):
        assert set(stream.test(SEEDS, task).y[0].tolist()) == set(groups[task])


def test_every_seed_may_have_an_order_of_its_own() -> None:
    stream = benchmark("seq-digits").stream(class_order="seed")
    assert stream.name == "seq-digits-order-seed"
    assert [stream.task_classes(task) for task in range(5)] == _usual()
    first = stream.test(SEEDS, 0)
    assert first.y[0].tolist() == first.y[1].tolist()
    assert not torch.equal(first.x[0], first.x[1])


@pytest.mark.parametrize(
    ("name", "order", "message"),
    [
        ("rot-digits", "seed", "in rot-digits every task has all of them"),
        ("seq-digits", "random", "class_order is 'random': give seed"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(name: str, order: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        benchmark(name).stream(class_order=order)


def _usual() -> list[tuple[int, ...]]:
    return [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
