"""The pictures of streams with tasks: what they show is what a run meets, in colour too."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from recollect.cli.main import main
from recollect.experiments.figures import recipe, save
from recollect.experiments.figures.examples import arrivals
from recollect.streams import BENCHMARKS, TaskStream, benchmark, twin
from recollect.streams.pixels import angle

drawn_here = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed here"
)


def photographs(side: int = 64) -> TaskStream:
    """Three tasks of one class and four colour images each: halves of pure red and of noise."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(256, (12, 3, side, side), generator=generator, dtype=torch.uint8)
    x[:, :, : side // 2] = torch.tensor([255, 0, 0], dtype=torch.uint8).view(1, 3, 1, 1)
    y = torch.arange(12) // 4
    ids = tuple(torch.arange(4) + 4 * task for task in range(3))
    return TaskStream("photos", "class", 3, x, y, x, y, ids, ids, ((0,), (1,), (2,)))


@pytest.mark.parametrize("name", ["seq-digits", "perm-digits", "rot-digits"])
def test_a_row_is_what_a_run_meets_first(name: str) -> None:
    stream = benchmark(name).stream()
    seeds = torch.tensor([4])
    found = arrivals(stream, seed=4)
    assert (found.benchmark, len(found.tasks)) == (name, stream.tasks)
    for task, shown in enumerate(found.tasks):
        x, y = stream.pick(seeds, task, stream.order(seeds, task, 0, 0, 8))
        assert shown.labels == tuple(y[0].tolist())
        assert set(shown.labels) <= set(stream.task_classes(task))
        assert shown.count == sum(stream.parts(task))
        torch.testing.assert_close(torch.tensor(shown.images, dtype=x.dtype), x[0])


def test_the_angle_of_a_task_is_named_where_there_is_one() -> None:
    found = arrivals(benchmark("rot-digits").stream(), seed=1)
    angles = angle(torch.tensor([1]), torch.arange(20))[0]
    expected = [round(math.degrees(each), 1) for each in angles.tolist()]
    assert [task.degrees for task in found.tasks] == expected
    plain = arrivals(benchmark("seq-digits").stream())
    assert [task.degrees for task in plain.tasks] == [None] * 5


def test_photographs_are_shrunk_by_averages_and_short_tasks_shown_whole() -> None:
    stream = photographs()
    found = arrivals(stream)
    for task, shown in enumerate(found.tasks):
        order = stream.order(torch.tensor([0]), task, 0, 0, 4)
        x = stream.pick(torch.tensor([0]), task, order).x[0].double()
        halves = (x[..., ::2, :] + x[..., 1::2, :]) / 2
        slow = ((halves[..., ::2] + halves[..., 1::2]) / 2).round().movedim(1, -1)
        images = torch.tensor(shown.images)
        assert images.shape == (4, 32, 32, 3)
        torch.testing.assert_close(images.double(), slow)


@drawn_here
def test_colours_stay_what_they_are(tmp_path: Path) -> None:
    save(recipe("seq-cifar10").draw(arrivals(photographs())), tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        red, green, blue = np.moveaxis(np.asarray(picture.convert("RGB")), -1, 0)
    share = ((red > 240) & (green < 15) & (blue < 15)).mean()
    assert 0.02 < share < 0.5


def test_the_command_has_every_benchmark_with_tasks(
    bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Digits stand in for MNIST; photographs are never fetched for the sake of a picture."""
    with_tasks = [each.name for each in BENCHMARKS.values() if each.tasks > 1]
    for name in (name for name in with_tasks if "digits" not in name):
        code = main(["figures", name, "--format", "json"])
        if other := twin(BENCHMARKS[name]):
            assert code == 0
            made = json.loads(Path(f"figures/{name}.json").read_text("utf-8"))
            assert made["benchmark"] == other.name
        else:
            assert code == 2
            dataset = BENCHMARKS[name].dataset
            expected = f"the data of {name} are not available: run recollect data fetch {dataset}"
            assert expected in capsys.readouterr().err
