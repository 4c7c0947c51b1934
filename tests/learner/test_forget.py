"""After `forget`, no tensor and no file written later has the bytes of what was forgotten."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
from tests.learner.some_stream import engine_of, network

from recollect import ER, MLP, DERpp, Learner
from recollect.learner.engine import emptied, engine
from recollect.methods import DER, GSS, SCR, ERKMeans, ERMoF, ERRing, Method
from recollect.train import compiled

BATCH = 5


@pytest.fixture(autouse=True)
def _without_what_was_there() -> Iterator[None]:
    """Let the collector look at objects of this test alone: a long session has millions."""
    gc.freeze()
    yield
    gc.unfreeze()


def stream(count: int, start: int = 0) -> Iterator[tuple[np.ndarray, list[int], list[str]]]:
    for step in range(start, start + count):
        rng = np.random.default_rng(step)
        x = rng.normal(size=(BATCH, 4)).astype(np.float32)
        yield x, rng.integers(3, size=BATCH).tolist(), [f"{step}/{i}" for i in range(BATCH)]


def made(method: Method, folder: Path | None = None, **arguments: Any) -> Learner:
    torch.manual_seed(0)
    arguments = {"memory": 12, "replay": 4, "lr": 0.01, "classes": [0, 1, 2], **arguments}
    return Learner(MLP(4, 3, hidden=(6,)), method, checkpoints=folder, **arguments)


def learn(learner: Learner, count: int, start: int = 0) -> None:
    for x, y, ids in stream(count, start):
        learner.observe(x.copy(), y, ids=ids, source="test")


def example(name: str) -> bytes:
    step, row = map(int, name.split("/"))
    (found,) = stream(1, step)
    data: bytes = found[0][row].tobytes()
    return data


def bytes_of(storage: torch.UntypedStorage) -> bytes:
    flat = torch.empty(0, dtype=torch.uint8).set_(storage)
    data: bytes = flat.numpy().tobytes()
    return data


def _has_bytes(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "cpu" and tensor.layout == torch.strided


def in_tensors(names: list[str]) -> list[str]:
    """The examples whose bytes are in the storage of any tensor of this process."""
    gc.collect()
    storages = {}
    for each in gc.get_objects():
        if issubclass(type(each), torch.Tensor) and _has_bytes(each):
            storage = each.untyped_storage()
            if storage.nbytes():
                storages[storage.data_ptr()] = bytes_of(storage)
    return [name for name in names if any(example(name) in each for each in storages.values())]


METHODS = [
    DERpp(0.1, 0.5),
    DER(0.1),
    ER(balanced=True),
    GSS(),
    SCR(),
    ERRing(),
    ERKMeans(),
    ERMoF(),
]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_no_tensor_and_no_later_file_has_the_bytes(
    method: Method, recorded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "RECORDED", {"cpu"} if recorded else set())
    learner = made(method, tmp_path / "folder", checkpoint_every=2)
    learn(learner, 9)
    learner.flush()
    names = [str(row.id) for row in learner.remembered()]
    gone = [*names[:4], "8/0", "8/1", "8/2", "8/3", "8/4"]  # the last batch is in many places
    assert in_tensors(names[:1])
    result = learner.forget(gone)
    assert result.rows == len(set(names) & set(gone))
    assert not in_tensors(gone)
    assert not {name for name, _ in learner._now.names._table.values()} & {*gone}
    for path in result.files:
        path.unlink()
    learner.save(tmp_path / "saved")
    learner.checkpoint()
    (tmp_path / "pickle").write_bytes(pickle.dumps(learner))
    learn(learner, 4, start=9)
    learner.flush()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 5
    assert not in_tensors(gone)
    for path in files:
        data = path.read_bytes()
        assert not [name for name in gone if example(name) in data]
        assert not [name for name in gone if f'"{name}"'.encode() in data]
    learner.close()


def test_the_result_says_what_cannot_be_undone(tmp_path: Path) -> None:
    learner = made(DERpp(0.1, 0.5), tmp_path / "folder")
    learn(learner, 2)
    path = learner.checkpoint()
    result = learner.forget(["0/1", "nobody", "0/1"])
    assert (result.rows, result.unknown, result.files) == (1, ["nobody"], (path,))
    text = str(result)
    assert "1 example removed" in text
    assert "'nobody'" in text
    assert "weights" in text
    assert str(path) in text
    learner.close()


def test_statistics_of_a_closed_form_are_named() -> None:
    from recollect.methods import NCM

    learner = made(NCM())
    learn(learner, 2)
    result = learner.forget("0/0")
    assert (result.rows, result.unknown) == (0, ["0/0"])
    assert "the state of NCM (means, counts)" in str(result)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_a_learner_with_holes_resumes_exactly(method: Method, tmp_path: Path) -> None:
    learner = made(method)
    learn(learner, 6)
    learner.forget([row.id for row in learner.remembered()][:9])
    assert len(engine_of(learner).fleet.clock.holes) >= 7
    learner.save(tmp_path / "saved")
    again = Learner.load(tmp_path / "saved", MLP(4, 3, hidden=(6,)))
    for each in (learner, again):
        learn(each, 4, start=6)
    mine, other = engine_of(learner).fleet, engine_of(again).fleet
    assert mine.clock == other.clock
    for name, tensor in mine.tensors().items():
        assert torch.equal(tensor, other.tensors()[name]), name
    assert learner.remembered() == again.remembered()


def test_a_forgotten_example_is_never_replayed() -> None:
    learner = made(DERpp(0.1, 0.5), memory=30)
    learn(learner, 6)
    learner.forget([row.id for row in learner.remembered()][:28])
    fleet = engine_of(learner).fleet
    for step in range(6, 12):
        read, holes = fleet.planner.plan, set(fleet.clock.holes)
        sizes = fleet.planner.sizes(fleet.clock)
        assert all(size <= 30 - len(holes) for size in sizes)
        plan = read(fleet.clock, 1, BATCH, sizes, torch.zeros(1, 1, BATCH, dtype=torch.int64))
        assert not holes & set(plan["read"].flatten().tolist())
        learn(learner, 1, start=step)


@pytest.mark.parametrize("method", [DERpp(0.1, 0.5), SCR(), ER(balanced=True)], ids=str)
def test_an_interrupted_forget_changes_nothing(
    method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = made(method)
    learn(learner, 6)
    before = {n: t.clone() for n, t in engine_of(learner).fleet.tensors().items()}
    rows, clock = learner.remembered(), engine_of(learner).fleet.clock

    def interrupted(*given: Any) -> None:
        emptied.empty_slots(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "empty_slots", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learner.forget([row.id for row in rows])
    monkeypatch.undo()
    assert learner.remembered() == rows
    assert engine_of(learner).fleet.clock == clock
    for name, tensor in engine_of(learner).fleet.tensors().items():
        if not name.startswith("memory."):
            assert torch.equal(tensor, before[name])
        else:
            assert torch.equal(tensor[:-1], before[name][:-1])


def test_predictions_go_on_while_it_forgets() -> None:
    learner = made(SCR(), memory=40)
    learn(learner, 10)
    failures: list[BaseException] = []
    done = False

    def predict() -> None:
        try:
            while not done:
                learner.predict(np.zeros((3, 4), dtype=np.float32))
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=predict) for _ in range(2)]
    for thread in threads:
        thread.start()
    for step in range(10, 20):
        learner.forget([row.id for row in learner.remembered()][::3])
        learn(learner, 1, start=step)
    done = True
    for thread in threads:
        thread.join()
    assert not failures


def test_class_means_leave_out_what_was_forgotten() -> None:
    learner = made(SCR())
    learn(learner, 6)
    rows = learner.remembered()
    learner.forget([row.id for row in rows if row.label == 0])
    probabilities = learner.predict_proba(np.zeros((1, 4), dtype=np.float32))
    assert probabilities[0, 0] == 0


def test_a_file_that_another_thread_was_writing_is_one_of_the_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from threading import Event

    from recollect import files
    from recollect.learner.saving import image

    begun, go_on = Event(), Event()
    write = files.write_packed

    def slow(*given: Any) -> None:
        begun.set()
        go_on.wait()
        write(*given)

    monkeypatch.setattr(image, "write_packed", slow)
    learner = made(ER())
    learn(learner, 2)
    saving = Thread(target=learner.save, args=(tmp_path / "saved",))
    saving.start()
    begun.wait()
    forgetting = Thread(target=learner.forget, args=("0/0",))
    forgetting.start()
    forgetting.join(0.1)
    assert forgetting.is_alive()
    go_on.set()
    forgetting.join()
    saving.join()
    assert not in_tensors(["0/0"])


def test_network_that_grew_leaves_no_copy() -> None:
    learner = Learner(network(1), DERpp(0.1, 0.5), memory=12, replay=4, lr=0.01, spare=1)
    learn(learner, 5)
    gone = [str(row.id) for row in learner.remembered()][:3]
    learner.forget(gone)
    assert not in_tensors(gone)
    result = learner.remembered()
    assert not {row.id for row in result} & set(gone)
