"""Python calls with a store, several buffers, and a search on a stream of one's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.experiments.some_results import with_provenance
from torch import Tensor

import recollect
from recollect import Callback, InputError, Method, Step
from recollect.cli.main import main
from recollect.experiments.files import read_json
from recollect.experiments.store import Store
from recollect.streams import Stream, TaskStream
from recollect.train import Point
from recollect.train.provenance import commit


@dataclass(frozen=True)
class Plain(Method):
    """Fine-tuning, with a weight on its loss."""

    weight: float | Tensor = 1.0

    name: ClassVar[str] = "plain"
    title: ClassVar[str] = "Plain SGD"

    def loss(self, step: Step) -> Tensor:
        (now,) = step.net(step.x)
        return self.weight * step.criterion(now, step.y)


class WithSplit:
    """A stream with a validation split: the last ten training examples of each task."""

    def __init__(self, stream: TaskStream) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def validation(self) -> Stream:
        ids = self._stream.train_ids
        return replace(
            self._stream,
            train_ids=tuple(each[:-10] for each in ids),
            test_ids=tuple(each[-10:] for each in ids),
            test_x=self._stream.train_x,
            test_y=self._stream.train_y,
        )


class WithoutSplit(WithSplit):
    """A stream that says nothing of a validation split."""

    validation: Any = None


def test_what_the_store_has_is_not_trained_again(
    toy_stream: TaskStream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["study.py", "--small"])
    monkeypatch.setattr("sys.orig_argv", ["python3", "study.py", "--small"])
    path = tmp_path / "runs.sqlite"
    first = recollect.run(toy_stream, "er", buffer=20, seeds=2, workers=1, store=path)
    again = recollect.run(toy_stream, "er", buffer=20, seeds=3, workers=1, store=str(path))
    assert [*again[:2]] == [*first], "timings too: they were not trained again"
    assert [run.provenance for run in again[:2]] == [run.provenance for run in first]
    runs = Store(path).runs()
    assert [run.seed for run in runs] == [0, 1, 2]
    assert all("study.py --small" in run.provenance.command for run in runs)
    again.save(tmp_path / "saved.json")
    assert with_provenance(read_json(tmp_path / "saved.json")) == with_provenance(runs)
    assert {run.provenance.commit for run in runs} == {commit()}


def test_python_and_the_command_share_the_store(
    bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    trained = recollect.run("seq-digits", "er", buffer=[20, 50], seeds=1, workers=1, store=True)
    assert [run.buffer for run in trained] == [20, 50]
    words = "run seq-digits er --buffer 20 50 --seeds 1 --workers 1 --json runs.json"
    assert main(words.split()) == 0
    assert "2 of 2 runs are already in the store" in capsys.readouterr().err
    assert read_json("runs.json") == [*trained]


def test_a_store_that_cannot_be_used_is_an_error_before_training(
    toy_stream: TaskStream, tmp_path: Path
) -> None:
    with pytest.raises(recollect.DataError, match="cannot be used"):
        recollect.run(toy_stream, "er", buffer=20, seeds=1, store=tmp_path)


def test_several_buffers_are_several_configurations(toy_stream: TaskStream) -> None:
    results = recollect.run(toy_stream, "er", buffer=iter([10, 20, 10]), seeds=iter([0, 1]),
                            workers=1)  # fmt: skip
    assert [(run.buffer, run.seed) for run in results] == [(10, 0), (10, 1), (20, 0), (20, 1)]
    with pytest.raises(InputError, match="there are no buffers"):
        recollect.run(toy_stream, "er", buffer=[])
    with pytest.raises(InputError, match="at least 1 example, not 0"):
        recollect.run(toy_stream, "er", buffer=[10, 0])


def test_a_search_on_a_stream_and_a_method_of_ones_own(
    toy_stream: TaskStream, tmp_path: Path
) -> None:
    stream: Any = WithSplit(toy_stream)
    path = tmp_path / "runs.sqlite"
    found = recollect.search(stream, Plain, lr=[1e-6, 0.1], weight=1.0, seeds=2, workers=1,
                             store=path)  # fmt: skip
    assert found.best == {"lr": 0.1, "weight": 1.0}
    assert [one.values["lr"] for one in found.tried] == [0.1, 1e-6]
    assert [run.validation for run in found.validation] == [True] * 2
    assert [run.validation for run in found.results] == [False] * 2
    assert found.validation[0].steps < found.results[0].steps, "trained without what is held out"
    assert "1. lr 0.1, weight 1: " in str(found)
    (by_hand,) = recollect.run(stream, Plain, lr=0.1, seeds=1, workers=1, validation=True)
    assert by_hand.accuracy == found.tried[0].summary.first.accuracy
    again = recollect.search(stream, Plain, lr=[1e-6, 0.1], weight=1.0, seeds=2, workers=1,
                             store=path)  # fmt: skip
    assert [*again.results] == [*found.results], "from the store"
    assert {run.method_title for run in Store(path).runs()} == {"Plain SGD"}


def test_a_search_with_optuna_stays_between_the_bounds(toy_stream: TaskStream) -> None:
    pytest.importorskip("optuna")
    stream: Any = WithSplit(toy_stream)
    found = recollect.search(stream, Plain(weight=2.0), lr=[0.01, 0.3], trials=3, seeds=1,
                             workers=1)  # fmt: skip
    rates = {run.hyperparameters["lr"] for run in found.validation}
    assert len(rates) == 3
    assert all(0.01 <= rate <= 0.3 for rate in rates)
    assert {run.hyperparameters["weight"] for run in found.validation} == {2.0}


def test_what_cannot_be_searched_is_refused(toy_stream: TaskStream) -> None:
    unsplit: Any = WithoutSplit(toy_stream)
    with pytest.raises(InputError, match="has no validation split"):
        recollect.search(unsplit, Plain, lr=[0.1, 0.2])
    stream: Any = WithSplit(toy_stream)
    with pytest.raises(InputError, match="there is nothing to search"):
        recollect.search(stream, Plain, lr=0.1)
    with pytest.raises(InputError, match="has no hyper-parameter 'wide'"):
        recollect.search(stream, Plain, wide=[1, 2])


class Watch(Callback):
    """Counts its calls."""

    only_observes = True

    def __init__(self) -> None:
        self.tasks: list[int] = []

    def on_task_end(self, point: Point) -> None:
        self.tasks.append(point.task)


class Meddle(Callback):
    """Sets all weights to zero at the end, without a trace in version counters."""

    def on_task_start(self, point: Point) -> None:
        for tensor in point.fleet.weights.named().values():
            tensor.data.mul_(0.0)


def test_callbacks_are_called_also_where_the_store_has_the_runs(
    toy_stream: TaskStream, tmp_path: Path
) -> None:
    def run(*callbacks: Callback) -> recollect.Results:
        return recollect.run(
            toy_stream, "er", buffer=20, seeds=2, workers=1, store=tmp_path / "runs.sqlite",
            callbacks=callbacks,
        )  # fmt: skip

    first, second = Watch(), Watch()
    results = run(first)
    assert first.tasks == [0, 1]
    assert [*run()] == [*results], "one that only observes: its results are stored"
    assert [each.identity for each in run(second)] == [each.identity for each in results]
    assert second.tasks == [0, 1]


def test_what_a_callback_may_have_changed_is_not_stored(
    toy_stream: TaskStream, tmp_path: Path
) -> None:
    path = tmp_path / "runs.sqlite"
    options: dict[str, Any] = {"buffer": 20, "seeds": 2, "workers": 1, "store": path}
    with pytest.warns(
        UserWarning, match=r"not stored, because the callback Meddle .*only_observes = True"
    ):
        changed = recollect.run(toy_stream, "er", callbacks=[Meddle()], **options)
    assert Store(path).runs() == []
    plain = recollect.run(toy_stream, "er", **options)
    assert {each.identity.key for each in plain}.isdisjoint(each.identity.key for each in changed)
    assert Store(path).runs() == [*plain]
    assert len(recollect.Results([*plain, *changed]).summaries()) == 2
