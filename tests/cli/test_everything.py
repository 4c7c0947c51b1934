"""`recollect reproduce --all`: every table, told beforehand how long, and never twice."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from recollect.cli.main import main
from recollect.experiments.estimate import seconds_by_method
from recollect.experiments.plan import plan
from recollect.experiments.store import Store
from recollect.methods import METHODS
from recollect.streams import benchmark
from recollect.train import Job

SMALL = ["--methods", "sgd", "agem", "--buffers", "20", "--seeds", "1", "--workers", "1"]


def test_every_table_is_trained_and_printed_once(
    bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", "--all", *SMALL, "--json", "all.json"]) == 0
    said = capsys.readouterr()
    for name in ("seq-digits", "perm-digits", "rot-digits", "digits-360"):
        assert f"{name}: accuracy after the last task, 1 seed" in said.out
    for score in ("forward transfer", "backward transfer", "forgetting"):
        assert f"seq-digits: {score}" in said.out
        assert f"digits-360: {score}" not in said.out
    assert "skipping seq-cifar10, seq-tiny-imagenet: they take days" in said.err
    assert "about" in said.err
    assert "estimated training time: about" in said.err
    found = {(run.benchmark, run.method) for run in Store().runs()}
    both = {
        (name, m) for name in ("seq-digits", "perm-digits", "rot-digits") for m in ("sgd", "agem")
    }
    assert found == both | {("digits-360", "sgd")}
    assert Path("all.json").stat().st_size > 1000
    before = [run.provenance.created for run in Store().runs()]
    assert main(["reproduce", "--all", *SMALL, "--scores", "forgetting"]) == 0
    said = capsys.readouterr()
    assert "accuracy" not in said.out
    assert "2 of 2 runs are already in the store" in said.err
    assert [run.provenance.created for run in Store().runs()] == before


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["reproduce"], "give either the name of a benchmark, or --all"),
        (["reproduce", "seq-digits", "--all"], "give either the name of a benchmark"),
        (["reproduce", "--all", "--epochs", "3"], "the paper's epochs"),
    ],
)
def test_one_benchmark_or_all(
    arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert reason in capsys.readouterr().err


def test_an_estimate_grows_with_the_work_and_shrinks_with_cores() -> None:
    known = benchmark("seq-digits")
    stream = known.stream()

    def jobs(seeds: int) -> list[Job]:
        return list(
            plan(METHODS["er"], benchmark=known, buffer=20, seeds=range(seeds)).jobs(stream)
        )

    one, many = jobs(5), jobs(50)
    few = seconds_by_method(one, 1)["er"]
    assert few > 0
    assert seconds_by_method(many, 1)["er"] > 3 * few


@pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None, reason="TensorBoard is not installed"
)
def test_tensorboard_gets_every_accuracy(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = tmp_path / "board"
    assert main(["run", "seq-digits", "er", "--buffer", "20", "--seeds", "2", "--workers", "1",
                 "--curves", "50", "--confusion", "--tensorboard", str(folder)]) == 0  # fmt: skip
    runs = sorted({path.parent for path in folder.rglob("events.*")})
    assert [path.name for path in runs] == ["seed0", "seed1"]
    events = EventAccumulator(str(runs[1])).Reload()
    result = Store().runs()[1]
    logged = [event.value for event in events.Scalars("Class-IL/task 1")]
    assert logged == pytest.approx([row[0] for row in result.matrix["class"]], rel=1e-5)
    (final,) = events.Scalars("final accuracy/Task-IL")
    assert final.value == pytest.approx(result.accuracy["task"], rel=1e-5)
    (final,) = events.Scalars("final any-time accuracy/Class-IL")
    assert final.value == pytest.approx(result.anytime_accuracy["class"], rel=1e-5)
    (final,) = events.Scalars("final average incremental accuracy/Class-IL")
    incremental = result.average_incremental_accuracy["class"]
    assert final.value == pytest.approx(incremental, rel=1e-5)
    assert result.curves is not None
    curve = {event.step: event.value for event in events.Scalars("curve loss")}
    expected = dict(zip(result.curves.steps, result.curves.loss, strict=True))
    assert curve == pytest.approx(expected, rel=1e-5)
    means = [event.value for event in events.Scalars("curve Class-IL/mean of tasks so far")]
    assert means == pytest.approx(result.curves.mean("class"), rel=1e-5)
    by_class = [event.value for event in events.Scalars("class accuracy/Class-IL")]
    assert by_class == pytest.approx(result.class_accuracy["class"], rel=1e-5)
    (image,) = events.Images("confusion/Class-IL")
    assert (image.width, image.height) == (80, 80)
