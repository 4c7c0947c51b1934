"""Joint training: everything once, mixed, as it looks in its own task."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from recollect.streams.benchmarks import benchmark
from recollect.streams.joint import Joint
from recollect.streams.stream import Stream
from recollect.streams.tasks import TaskStream, examples_of

SEEDS = torch.tensor([3, 1, 7])


def uneven() -> TaskStream:
    """Twelve examples, each its own pixel value, in tasks of seven, one and four."""
    y = torch.tensor([0] * 7 + [1] + [2] * 4)
    x = torch.arange(12, dtype=torch.uint8).view(12, 1)
    groups = ((0,), (1,), (2,))
    ids = tuple(examples_of(y, group) for group in groups)
    return TaskStream("toy", "class", 3, x, y, x, y, ids, ids, groups)


def test_everything_is_visited_once_in_one_part() -> None:
    stream: Stream = Joint(uneven())
    assert stream.tasks == 1
    assert stream.parts(0) == (12,)
    batch = stream.pick(SEEDS, 0, stream.order(SEEDS, 0, 0, 0, 12))
    assert batch.x[..., 0].sort().values.tolist() == [list(range(12))] * 3
    assert torch.equal(batch.y, uneven().train_y[batch.x[..., 0].long()])
    other = stream.order(SEEDS, 0, 1, 0, 12)
    assert (
        len({tuple(row) for row in [*stream.order(SEEDS, 0, 0, 0, 12).tolist(), *other.tolist()]})
        == 6
    )


@pytest.mark.parametrize("name", ["perm-digits", "rot-digits", "seq-digits", "digits-360"])
def test_an_example_looks_as_in_its_own_task(name: str) -> None:
    inner = benchmark(name).stream()
    joint = Joint(inner)
    sizes = [sum(inner.parts(task)) for task in range(inner.tasks)]
    assert joint.parts(0) == (sum(sizes),)
    index = joint.order(SEEDS, 0, 0, 40, 60)
    batch = joint.pick(SEEDS, 0, index)
    starts = torch.tensor(sizes).cumsum(0) - torch.tensor(sizes)
    for k in range(3):
        for place, number in enumerate(index[k].tolist()):
            task = int((starts <= number).sum()) - 1
            own = torch.tensor([[number - int(starts[task])]])
            alone = inner.pick(SEEDS[k : k + 1], task, own)
            assert torch.equal(batch.x[k, place], alone.x[0, 0])
            assert batch.y[k, place] == alone.y[0, 0]


def test_a_task_begins_where_the_one_before_ends() -> None:
    inner = benchmark("perm-digits").stream()
    batch = Joint(inner).pick(SEEDS[:1], 0, torch.tensor([[1437, 1438, 20 * 1438 - 1]]))
    for place, (task, index) in enumerate([(0, 1437), (1, 0), (19, 1437)]):
        alone = inner.pick(SEEDS[:1], task, torch.tensor([[index]]))
        assert torch.equal(batch.x[0, place], alone.x[0, 0])


def test_tasks_are_mixed_from_the_start() -> None:
    joint = Joint(benchmark("seq-digits").stream())
    labels = Counter(joint.pick(SEEDS, 0, joint.order(SEEDS, 0, 0, 0, 100)).y.flatten().tolist())
    assert set(labels) == set(range(10))
    assert max(labels.values()) < 60


def test_it_is_scored_like_the_stream_inside() -> None:
    inner = uneven()
    joint = Joint(inner)
    assert joint.inner is inner
    assert (joint.name, joint.setting, joint.boundaries) == ("toy", "class", True)
    assert (joint.classes, joint.shape, joint.dtype) == (3, (1,), torch.uint8)
    assert joint.task_classes(0) == (0, 1, 2)
    assert joint.test(SEEDS, 0).y.tolist() == [inner.test_y.tolist()]
