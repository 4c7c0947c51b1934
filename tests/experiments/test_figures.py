"""The figures' data: which runs count, and what each figure makes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.experiments.some_results import PLAIN, some

from recollect.errors import DataError, InputError
from recollect.experiments.figures import Material, over_time, recipe, scores, wall_clock
from recollect.experiments.figures.examples import batches
from recollect.experiments.figures.runs import Line, Point
from recollect.streams import benchmark

# Which runs count


def test_a_point_stands_for_tests_with_the_epochs_of_the_benchmark() -> None:
    others = [replace(PLAIN, validation=True, seed=1), replace(PLAIN, epochs=2, seed=2)]
    (found,) = Material([PLAIN, *others]).cells
    assert found.runs == (PLAIN,)


def test_a_seed_counts_once_and_the_first_time() -> None:
    again = replace(PLAIN, accuracy={"class": 10.0})
    (found,) = Material([PLAIN, again, replace(PLAIN, seed=1)]).cells
    assert [(run.seed, run.accuracy["class"]) for run in found.runs] == [(0, 80.0), (1, 80.0)]


def test_of_several_configurations_the_papers_counts_or_that_with_most_seeds() -> None:
    searched = [
        replace(PLAIN, seed=seed, hyperparameters={**PLAIN.hyperparameters, "lr": 0.1})
        for seed in range(5)
    ]
    (found,) = Material([*searched, PLAIN]).cells
    assert found.runs == (PLAIN,)
    few = [replace(run, hyperparameters={"lr": 1.0}) for run in searched[:2]]
    (found,) = Material([*few, *searched]).cells
    assert found.runs == tuple(searched)


def test_an_ablation_with_the_papers_values_does_not_stand_for_the_method() -> None:
    """GEM without its ridge has all that the paper prints, and comes first in `results`."""
    printed = {"lr": 0.1, "gamma": 0.5, "bs": 128, "mbs": 128}
    gem = replace(PLAIN, benchmark="perm-mnist", method="gem", accuracy={"domain": 66.8})
    ablated = replace(gem, hyperparameters={**printed, "ridge": 0.0})
    gem = replace(gem, hyperparameters={**printed, "ridge": 0.001})
    (found,) = Material([ablated, gem]).cells
    assert found.runs == (gem,)


# The data of each figure


def test_memory_has_the_accuracy_at_the_bytes_of_the_state() -> None:
    runs = [
        *some("derpp", 500, [90.0, 92.0], memory_bytes=416_000),
        *some("derpp", 200, [80.0, 84.0], memory_bytes=166_400),
        *some("sgd", None, [19.0, 20.0], memory_bytes=0),
        *some("er", 10, [30.0], memory_bytes=8_000),
        *some("er-ring", 200, [70.0], memory_bytes=158_400),
    ]
    of_class, of_task = scores.memory(Material(runs)).panels
    assert (of_class.benchmark, of_class.setting, of_task.setting) == ("seq-mnist", "class", "task")
    sgd, derpp = of_class.lines
    assert sgd == Line("sgd", (Point(0.0, 19.5, 0.5**0.5, 2),))
    assert derpp.method == "derpp"
    assert derpp.points == (
        Point(166_400.0, 82.0, 8**0.5, 2, buffer=200),
        Point(416_000.0, 91.0, 2**0.5, 2, buffer=500),
    )


def test_tiny_memories_are_those_that_a_variant_of_er_was_run_with() -> None:
    runs = [
        *some("derpp", 20, [45.0, 47.0]),
        *some("derpp", 10, [31.0, 33.0]),
        *some("derpp", 200, [85.0, 85.0]),
        *some("er-ring", 10, [32.0, 34.0]),
        *some("er-ring", 20, [42.0, 42.0]),
        *some("er", 10, [30.0, 30.0]),
        *some("fdr", 10, [30.0, 30.0]),
    ]
    (panel,) = scores.tiny_memories(Material(runs)).panels
    assert (panel.benchmark, panel.setting) == ("seq-mnist", "class")
    assert [line.method for line in panel.lines] == ["er", "er-ring", "derpp"]
    assert [(p.x, p.mean) for p in panel.lines[2].points] == [(10.0, 32.0), (20.0, 46.0)]


def test_over_time_follows_a_task_from_when_it_is_learnt() -> None:
    lower: dict[str, list[list[float | None]]] = {
        "class": [[80.0, 0.0, None], [40.0, 60.0, 0.0], [10.0, 20.0, 50.0]]
    }
    runs = [
        *some("derpp", 500, [1.0]),
        replace(some("derpp", 500, [1.0, 2.0])[1], matrix=lower),
        *some("derpp", 200, [1.0]),
        *some("gem", 500, [1.0]),
        *some("joint", None, [1.0], matrix={"class": [[95.0, 95.0, 95.0]]}),
    ]
    first, second, mean = over_time.data(Material(runs), methods=("derpp", "joint")).panels
    assert [panel.task for panel in (first, second, mean)] == [1, 2, None]
    assert {panel.tasks for panel in (first, second, mean)} == {3}
    (line,) = first.lines
    assert [(p.x, p.mean) for p in line.points] == [(1, 85.0), (2, 50.0), (3, 20.0)]
    assert line.points[0].std == pytest.approx(50**0.5)
    assert [(p.x, p.mean) for p in second.lines[0].points] == [(2, 70.0), (3, 30.0)]
    assert [p.mean for p in mean.lines[0].points] == pytest.approx([85.0, 60.0, 110 / 3])


def test_transfer_has_every_score_that_was_measured() -> None:
    runs = [
        *some(
            "derpp", 500, [1.0, 2.0], forgetting={"class": 4.0}, bwt={"class": -4.0, "task": 1.0}
        ),
        *some("er", 200, [1.0], forgetting={"class": 9.0}),
        *some("sgd", None, [1.0], forgetting={"class": 99.0}),
    ]
    forgetting, bwt = scores.transfer(Material(runs)).scores
    assert (forgetting.metric, bwt.metric) == ("forgetting", "bwt")
    (panel,) = forgetting.panels
    assert [line.method for line in panel.lines] == ["sgd", "er", "derpp"]
    assert panel.lines[2].points == (Point(500.0, 4.0, 0.0, 2, buffer=500),)
    assert [panel.setting for panel in bwt.panels] == ["class", "task"]


def test_wall_clock_has_the_quickest_and_the_slowest_run_of_a_machine() -> None:
    runs = [
        *some("derpp", 200, [1.0], train_seconds=3.0),
        *some("derpp", 500, [1.0], train_seconds=2.0),
        *some("er", 500, [1.0], train_seconds=1.5),
        *some("er", 500, [1.0], train_seconds=0.1, device="NVIDIA H200"),
        *some("er", 500, [1.0], train_seconds=0.01, validation=True),
        *some("er-ring", 500, [1.0], train_seconds=9.0),
    ]
    cpu, gpu = wall_clock.data(Material(runs)).panels
    assert (cpu.title, cpu.unit) == ("seq-mnist, CPU", "seconds per run")
    assert cpu.bars == (wall_clock.Bar("er", 1.5, 1.5), wall_clock.Bar("derpp", 2.0, 3.0))
    assert gpu.bars == (wall_clock.Bar("er", 0.1, 0.1),)


BENCH = """
Some words.
MLP 784-100-100-10, batches of 10, replays of 10, memory 500, one CPU core
method                 µs a run and step   times ER   between two tasks
ER                                   331       1.00                       broadcast, eager
P&C                                  345       1.04       75.9 ms a run   broadcast, eager
DER++                                496       1.50                       broadcast, eager
ER (ring)                            367       1.11                       broadcast, eager
Unknown                              367       1.11                       broadcast, eager
"""


def test_wall_clock_reads_what_the_benchmark_of_methods_prints(tmp_path: Path) -> None:
    (tmp_path / "bench.txt").write_text(BENCH + BENCH.replace("one CPU core", "a GPU"), "utf-8")
    core, gpu = wall_clock.from_bench(tmp_path / "bench.txt").panels
    assert core.title.endswith("memory 500, one CPU core")
    assert gpu.title.endswith("memory 500, a GPU")
    costs = [(bar.method, bar.least) for bar in core.bars]
    assert costs == [("pc", 345.0), ("er", 331.0), ("derpp", 496.0)]
    (tmp_path / "no.txt").write_text("nothing here", "utf-8")
    with pytest.raises(DataError, match="no table"):
        wall_clock.from_bench(tmp_path / "no.txt")


def test_the_pages_of_the_benchmark_of_methods_can_be_read() -> None:
    page = Path(__file__).parents[2] / "docs" / "performance.md"
    panels = wall_clock.from_bench(page).panels
    assert {"er", "derpp", "gem", "mer"} <= {bar.method for bar in panels[0].bars}


def test_batches_are_the_first_nine_examples_of_every_pair() -> None:
    stream = benchmark("digits-360").stream()
    found = batches(stream, seed=3)
    assert len(found.batches) == 27
    start = 0
    for number, (batch, size) in enumerate(zip(found.batches, stream.parts(0), strict=True)):
        assert set(batch.labels) == {number % 9, (number + 1) % 9}
        x, y = stream.pick(torch.tensor([3]), 0, torch.arange(start, start + 9)[None])
        assert batch.labels == tuple(y[0].tolist())
        torch.testing.assert_close(torch.tensor(batch.images, dtype=x.dtype), x[0])
        start += size


def test_results_of_nothing_are_refused_by_the_functions_too() -> None:
    for name in ("memory", "tiny-memories", "over-time", "wall-clock", "transfer"):
        with pytest.raises(InputError):
            recipe(name).data(Material())
