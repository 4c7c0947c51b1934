"""Task streams: each example once an epoch, each run as if it were alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recollect.streams.pixels import View, pixel_map, through
from recollect.streams.stream import Stream
from recollect.streams.tasks import TaskStream, examples_of

SEEDS = torch.tensor([3, 1, 7])
VIEWS: list[View] = ["plain", "permuted", "rotated"]


def class_stream(shuffle: bool = True) -> TaskStream:
    """Nine examples of three classes in tasks of two and one; its pixels number an image."""
    y = torch.tensor([0, 1, 2, 0, 2, 1, 0, 0, 2])
    x = torch.arange(1, 10, dtype=torch.uint8)[:, None, None] * torch.ones(4, 4, dtype=torch.uint8)
    groups = ((0, 1), (2,))
    ids = tuple(examples_of(y, group) for group in groups)
    return TaskStream("toy", "class", 3, x, y, x, y, ids, ids, groups, shuffle=shuffle)


def domain_stream(view: View, tasks: int = 4) -> TaskStream:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (30, 6, 6), dtype=torch.uint8, generator=generator)
    y = torch.arange(30) % 3
    train, test = (torch.arange(30),) * tasks, (torch.arange(30).flip(0)[:10],) * tasks
    groups = ((0, 1, 2),) * tasks
    return TaskStream("toy", "domain", 3, x, y, x, y, train, test, groups, view=view)


@given(st.integers(0, 2**40), st.integers(0, 1), st.integers(0, 50))
def test_an_epoch_visits_each_example_of_a_task_once(seed: int, task: int, epoch: int) -> None:
    stream = class_stream()
    (size,) = stream.parts(task)
    seeds = torch.tensor([seed])
    halves = [(0, size // 2), (size // 2, size)]
    index = torch.cat([stream.order(seeds, task, epoch, *half) for half in halves], 1)
    batch = stream.pick(seeds, task, index)
    seen = sorted(batch.x[0, :, 0, 0].tolist())
    assert seen == (stream.train_ids[task] + 1).tolist()
    assert set(batch.y[0].tolist()) == set(stream.task_classes(task))
    assert torch.equal(batch.y, stream.train_y[batch.x[:, :, 0, 0].long() - 1])


def test_orders_differ_by_seed_task_and_epoch() -> None:
    stream = domain_stream("plain")
    orders = [stream.order(SEEDS, task, epoch, 0, 30) for task in (0, 1) for epoch in (0, 1)]
    assert len({tuple(row) for order in orders for row in order.tolist()}) == 12


def test_an_unshuffled_stream_keeps_its_order() -> None:
    index = class_stream(shuffle=False).order(SEEDS, 0, 1, 2, 5)
    assert index.tolist() == [[2, 3, 4]] * 3


@pytest.mark.parametrize("view", VIEWS)
def test_a_run_of_a_fleet_equals_the_run_alone(view: View) -> None:
    stream = domain_stream(view)
    fleet = stream.pick(SEEDS, 2, stream.order(SEEDS, 2, 0, 5, 25))
    test = stream.test(SEEDS, 2)
    for k, seed in enumerate(SEEDS):
        alone = stream.pick(seed[None], 2, stream.order(seed[None], 2, 0, 5, 25))
        assert torch.equal(fleet.x[k], alone.x[0])
        assert torch.equal(fleet.y[k], alone.y[0])
        assert torch.equal(test.x.expand(3, -1, -1, -1)[k], stream.test(seed[None], 2).x[0])


@pytest.mark.parametrize("view", VIEWS)
def test_one_task_for_each_example_equals_one_task_for_all(view: View) -> None:
    stream = domain_stream(view)
    task = torch.tensor([[0, 1, 2, 3, 0], [3, 3, 1, 0, 2], [2, 2, 2, 2, 2]])
    index = torch.randint(0, 30, (3, 5), generator=torch.Generator().manual_seed(1))
    mixed = stream.pick(SEEDS, task, index)
    for number in range(4):
        pure = stream.pick(SEEDS, number, index)
        assert torch.equal(mixed.x[task == number], pure.x[task == number])
        assert torch.equal(mixed.y[task == number], pure.y[task == number])


def test_a_task_for_each_example_counts_within_that_task() -> None:
    stream = class_stream()
    batch = stream.pick(torch.tensor([0]), torch.tensor([[0, 1, 1]]), torch.tensor([[1, 0, 2]]))
    assert batch.x[0, :, 0, 0].tolist() == [2, 3, 9]
    assert batch.y.tolist() == [[1, 2, 2]]


@pytest.mark.parametrize("view", ["permuted", "rotated"])
def test_training_and_test_images_of_a_task_are_seen_alike(view: View) -> None:
    stream = domain_stream(view)
    seen = pixel_map(view, (3, 1, 7), (1,), 6, 6, "cpu")
    test = stream.test(SEEDS, 1)
    plain = stream.test_x[stream.test_ids[1]]
    assert test.x.shape == (3, 10, 6, 6)
    assert test.y.tolist() == [stream.test_y[stream.test_ids[1]].tolist()] * 3
    assert torch.equal(test.x, through(plain.expand(3, -1, -1, -1), seen))
    assert torch.equal(test.x, stream.pick(SEEDS, 1, stream.test_ids[1].expand(3, -1)).x)
    assert not torch.equal(test.x[0], plain)


def test_tests_without_a_view_are_shared_by_all_runs() -> None:
    test = class_stream().test(SEEDS, 1)
    assert test.x.shape == (1, 3, 4, 4)
    assert test.x[0, :, 0, 0].tolist() == [3, 5, 9]
    assert test.y.tolist() == [[2, 2, 2]]


def test_it_is_a_stream_of_bytes() -> None:
    stream: Stream = domain_stream("rotated")
    assert stream.dtype == stream.pick(SEEDS, 0, torch.zeros(3, 2).long()).x.dtype == torch.uint8
    assert (stream.tasks, stream.shape, stream.boundaries) == (4, (6, 6), True)
