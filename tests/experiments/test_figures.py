"""The figures: their data from results, their drawings as files, and the command."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from PIL import Image

from recollect.cli.main import main
from recollect.errors import DataError, InputError
from recollect.experiments.figures import (
    FIGURES,
    Material,
    fisher,
    memory,
    mnist360,
    over_time,
    recipe,
    save,
    streams,
    tiny_memories,
    wall_clock,
)
from recollect.experiments.figures.cells import Line, Point, cells
from recollect.experiments.figures.look import LOOKS
from recollect.experiments.made import Made
from recollect.experiments.results import Results
from recollect.experiments.store import Store
from recollect.methods import METHODS
from recollect.streams import BENCHMARKS, benchmark
from recollect.train import Result

drawn_here = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed here"
)

PLAIN = Result(
    benchmark="seq-mnist",
    method="derpp",
    buffer=200,
    seed=0,
    hyperparameters={"lr": 0.03, "alpha": 0.2, "beta": 1.0, "bs": 10, "mbs": 10},
    accuracy={"class": 80.0, "task": 99.0},
    fwt={"class": None, "task": None},
    bwt={"class": None, "task": None},
    forgetting={"class": None, "task": None},
    epochs=1,
    validation=False,
    matrix={
        "class": [[90.0, 0.0, None], [60.0, 80.0, 0.0], [30.0, 40.0, 70.0]],
        "task": [[99.0, 50.0, None], [98.0, 99.0, 50.0], [97.0, 98.0, 99.0]],
    },
    untrained=None,
    train_seconds=2.0,
    steps=6002,
    memory_bytes=166_400,
    diverged=False,
    device="CPU",
    execution="broadcast, eager",
)


def some(method: str, buffer: int | None, accuracies: list[float], **other: Any) -> list[Result]:
    """Runs that differ in their seed, with these accuracies in Class-IL."""
    values = METHODS[method].hyperparameters()
    return [
        replace(
            PLAIN, method=method, buffer=buffer, seed=seed,
            accuracy={"class": value, "task": 99.0},
            hyperparameters={"lr": 0.03, **dict.fromkeys(values, 0.5)}, **other,
        )
        for seed, value in enumerate(accuracies)
    ]  # fmt: skip


# Which runs count


def test_a_point_stands_for_tests_with_the_epochs_of_the_benchmark() -> None:
    others = [replace(PLAIN, validation=True, seed=1), replace(PLAIN, epochs=2, seed=2)]
    (found,) = cells([PLAIN, *others])
    assert found.runs == (PLAIN,)


def test_a_seed_counts_once_and_the_first_time() -> None:
    again = replace(PLAIN, accuracy={"class": 10.0})
    (found,) = cells([PLAIN, again, replace(PLAIN, seed=1)])
    assert [(run.seed, run.accuracy["class"]) for run in found.runs] == [(0, 80.0), (1, 80.0)]


def test_of_several_configurations_the_papers_counts_or_that_with_most_seeds() -> None:
    searched = [
        replace(PLAIN, seed=seed, hyperparameters={**PLAIN.hyperparameters, "lr": 0.1})
        for seed in range(5)
    ]
    (found,) = cells([*searched, PLAIN])
    assert found.runs == (PLAIN,)
    few = [replace(run, hyperparameters={"lr": 1.0}) for run in searched[:2]]
    (found,) = cells([*few, *searched])
    assert found.runs == tuple(searched)


# The data of each figure


def test_memory_has_the_accuracy_at_the_bytes_of_the_state() -> None:
    runs = [
        *some("derpp", 500, [90.0, 92.0], memory_bytes=416_000),
        *some("derpp", 200, [80.0, 84.0], memory_bytes=166_400),
        *some("sgd", None, [19.0, 20.0], memory_bytes=0),
        *some("er", 10, [30.0], memory_bytes=8_000),
        *some("er-ring", 200, [70.0], memory_bytes=158_400),
    ]
    of_class, of_task = memory.data(runs).panels
    assert (of_class.benchmark, of_class.setting, of_task.setting) == ("seq-mnist", "class", "task")
    sgd, derpp = of_class.lines
    assert sgd == Line("sgd", (Point(0.0, 19.5, 0.5**0.5, 2),))
    assert derpp.method == "derpp"
    assert derpp.points == (Point(166_400.0, 82.0, 8**0.5, 2), Point(416_000.0, 91.0, 2**0.5, 2))


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
    (panel,) = tiny_memories.data(runs).panels
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
    first, second, mean = over_time.data(runs, methods=("derpp", "joint")).panels
    assert [panel.task for panel in (first, second, mean)] == [1, 2, None]
    assert {panel.tasks for panel in (first, second, mean)} == {3}
    (line,) = first.lines
    assert [(p.x, p.mean) for p in line.points] == [(1, 85.0), (2, 50.0), (3, 20.0)]
    assert line.points[0].std == pytest.approx(50**0.5)
    assert [(p.x, p.mean) for p in second.lines[0].points] == [(2, 70.0), (3, 30.0)]
    assert [p.mean for p in mean.lines[0].points] == pytest.approx([85.0, 60.0, 110 / 3])


def test_wall_clock_has_the_quickest_and_the_slowest_run_of_a_machine() -> None:
    runs = [
        *some("derpp", 200, [1.0], train_seconds=3.0),
        *some("derpp", 500, [1.0], train_seconds=2.0),
        *some("er", 500, [1.0], train_seconds=1.5),
        *some("er", 500, [1.0], train_seconds=0.1, device="NVIDIA H200"),
        *some("er", 500, [1.0], train_seconds=0.01, validation=True),
        *some("er-ring", 500, [1.0], train_seconds=9.0),
    ]
    cpu, gpu = wall_clock.data(runs).panels
    assert (cpu.title, cpu.unit) == ("seq-mnist, CPU", "seconds a run")
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
    found = mnist360.data(stream, seed=3)
    assert len(found.batches) == 27
    start = 0
    for number, (batch, size) in enumerate(zip(found.batches, stream.parts(0), strict=True)):
        assert set(batch.labels) == {number % 9, (number + 1) % 9}
        x, y = stream.pick(torch.tensor([3]), 0, torch.arange(start, start + 9)[None])
        assert batch.labels == tuple(y[0].tolist())
        torch.testing.assert_close(torch.tensor(batch.images, dtype=x.dtype), x[0])
        start += size


# Drawings


@pytest.fixture(scope="module")
def results() -> list[Result]:
    """A few runs that every figure finds something in."""
    runs = []
    for method, buffers in (
        ("sgd", [None]), ("joint", [None]), ("er", [10, 20, 200, 500]), ("er-ring", [10, 20]),
        ("derpp", [10, 20, 200, 500]), ("mer", [200]),
    ):  # fmt: skip
        for buffer in buffers:
            mean = 50.0 + (buffer or 0) / 20
            runs += some(method, buffer, [mean - 2, mean + 2], memory_bytes=(buffer or 0) * 800)
    return runs


def curves() -> fisher.FisherData:
    """Lines that rise from left to right, for every method and two buffers."""
    steps = tuple(range(1, 101))
    return fisher.FisherData(
        "seq-mnist", 0.03, 2, (20, 40, 60, 80, 100),
        tuple(
            fisher.Curve(
                kind.name, buffer, steps, tuple(rise * step for step in steps), (0.5,) * 100,
                80.0, 1.0,
            )
            for buffer in (200, 500)
            for rise, kind in enumerate(fisher.KINDS, 1)
        ),
    )  # fmt: skip


@drawn_here
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_becomes_a_picture(name: str, results: list[Result], tmp_path: Path) -> None:
    if name == "fisher":
        made: object = curves()
    elif name == "mnist-360":
        made = mnist360.data(benchmark("digits-360").stream())
    elif name in BENCHMARKS:
        made = streams.data(benchmark("seq-digits").stream())
    else:
        made = recipe(name).data(Material(results=results))
    figure = recipe(name).draw(made)
    save(figure, tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.format == "PNG"
        assert picture.width > 500
        shades = picture.convert("L").getcolors()
    assert shades is not None
    assert len(shades) > 10, "there is more than a blank page"
    count, shade = max(shades)
    assert shade == 255, "the background is light"
    assert count > 0.5 * sum(n for n, _ in shades)
    save(figure, tmp_path / "a.svg")
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    words = " ".join("".join(text.itertext()) for text in root.iter(f"{root.tag[:-3]}text"))
    assert figure.get_suptitle() in words, "text is text"


@drawn_here
def test_the_same_data_give_the_same_file(results: list[Result], tmp_path: Path) -> None:
    made = recipe("tiny-memories").data(Material(results=results))
    figure = recipe("tiny-memories").draw(made)
    for name in ("a.png", "a.svg"):
        save(figure, tmp_path / name)
    for name in ("a.svg", "a.png"):
        save(recipe("tiny-memories").draw(made), tmp_path / f"again-{name}")
        assert (tmp_path / f"again-{name}").read_bytes() == (tmp_path / name).read_bytes()


@drawn_here
def test_a_method_has_its_colour_in_every_figure(results: list[Result], tmp_path: Path) -> None:
    for name in ("wall-clock", "tiny-memories"):
        made = recipe(name).data(Material(results=results))
        save(recipe(name).draw(made), tmp_path / "a.svg")
        drawn = (tmp_path / "a.svg").read_text("utf-8")
        for method in ("er", "derpp"):
            assert LOOKS[method].colour in drawn


def test_every_method_has_a_look_of_its_own() -> None:
    assert set(METHODS) <= set(LOOKS)
    assert len(set(LOOKS.values())) == len(LOOKS)


# The command


@drawn_here
def test_the_command_draws_from_files(
    results: list[Result],
    bare_machine: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Results(results[: len(results) // 2]).save(tmp_path / "a.json")
    Results(results[len(results) // 2 :]).save(tmp_path / "b.json")
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    words = ["figures", "memory", "tiny-memories", "--from", *files, "--out", "new/here"]
    assert main([*words, "--format", "png", "svg", "json"]) == 0
    said = capsys.readouterr().out.split()
    expected = {f"new/here/{name}.{form}" for name in ("memory", "tiny-memories")
                for form in ("png", "svg", "json")}  # fmt: skip
    assert set(said) == expected
    assert {str(path) for path in Path("new/here").iterdir()} == expected
    data = json.loads(Path("new/here/memory.json").read_text("utf-8"))
    lines = {line["method"]: line["points"] for line in data["panels"][0]["lines"]}
    assert [point["x"] for point in lines["derpp"]] == [160_000, 400_000]
    assert lines["derpp"][0]["mean"] == 60.0


def test_the_command_takes_the_store_and_leaves_out_what_is_not_there(
    results: list[Result],
    bare_machine: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without names it makes all that it can; on a bare machine digits stand in for MNIST."""
    made = Made("1", "code", "here", "", "2020")
    variants = ("er-ring", "er-kmeans", "er-mof", "er-hybrid")
    Store().add([(run, made) for run in results if run.method not in variants])
    monkeypatch.setattr(fisher, "data", partial(fisher.data, buffers=(20,)))
    assert main(["figures", "--format", "json", "--seeds", "1"]) == 0
    said = capsys.readouterr()
    without = ("tiny-memories", "seq-cifar10", "seq-tiny-imagenet")
    wanted = {f"figures/{name}.json" for name in FIGURES if name not in without}
    assert set(said.out.split()) == wanted
    assert "tiny-memories is left out: no results of ER's other memories" in said.err
    assert "seq-cifar10 is left out: the data of seq-cifar10 are not here" in said.err
    batches = json.loads(Path("figures/mnist-360.json").read_text("utf-8"))
    assert batches["benchmark"] == "digits-360"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["memry"], "unknown figure 'memry': did you mean 'memory'?"),
        (["memory"], "no results of methods that hold anything: run recollect reproduce"),
        (["wall-clock"], "no results to take times from"),
        (["tiny-memories"], "no results of ER's other memories"),
        (["over-time"], "no results with a sequence of tasks"),
        (["memory", "--from", "none.json"], "none.json cannot be read: No such file"),
        (["memory", "--from", "file"], "file, run 1: no results as --json writes them"),
        (["memory", "--store", "none.sqlite"], "there is no result store 'none.sqlite'"),
        (["memory", "--out", "file"], "cannot write into 'file': it is a file; give a folder"),
        (["wall-clock", "--bench", "none.txt"], "none.txt cannot be read"),
        (["wall-clock", "--bench", "file"], "file has no table"),
        (["fisher", "--seeds", "many"], "cannot read the seeds 'many'"),
        (["mnist-360", "--data-dir", "none"], "there is no folder 'none': correct --data-dir"),
    ],
)
def test_the_command_refuses_in_one_line(
    words: list[str], message: str, bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("[1]", "utf-8")
    assert main(["figures", *words, "--format", "json"]) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith("recollect: ")
    assert message in line
    assert said.out == ""
    assert [path.name for path in Path().iterdir()] == ["file"], "nothing is written"


def test_without_matplotlib_only_data_can_be_made(
    bare_machine: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["figures", "mnist-360"]) == 2
    assert 'not installed: run pip install "recollect[figures]"' in capsys.readouterr().err
    assert not Path("figures").exists()
    assert main(["figures", "mnist-360", "--format", "json"]) == 0
    assert Path("figures/mnist-360.json").exists()


def test_results_of_nothing_are_refused_by_the_functions_too() -> None:
    for make in (memory.data, tiny_memories.data, over_time.data, wall_clock.data):
        with pytest.raises(InputError):
            make([])
