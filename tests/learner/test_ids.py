"""Ids of examples, the table of what is remembered, and the size of a memory."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.learner.some_stream import batch, engine_of, network, weights

from recollect import ER, MLP, DERpp, DivergedError, InputError, Learner
from recollect.methods import GSS, ERHybrid, ERRing

FILES = Path(__file__).with_name("files")


def made(**arguments: Any) -> Learner:
    return Learner(network(), DERpp(0.1, 0.5), **{"memory": 8, "replay": 3, "lr": 0.05} | arguments)


@pytest.mark.parametrize(
    "ids",
    [["a", "b"], "abc", 3, ["a", "b", "c", "d", 1.5], [True] * 5, [b"a"] * 5, [["a"]] * 5,
     {"a": 1}, np.zeros((5, 1), dtype=int), np.zeros(5), ["x" * 1001] * 5, [2**63] * 5,
     [float("nan")] * 5, (i for i in range(5)), object(), [None, object(), 1, 2, 3]],
)  # fmt: skip
def test_malformed_ids_are_refused_and_change_nothing(ids: Any) -> None:
    learner = made()
    learner.observe(*batch(0), ids=list("abcde"))
    before, rows = weights(learner), learner.remembered()
    with pytest.raises(InputError):
        learner.observe(*batch(1), ids=ids)
    assert (learner.seen, learner.remembered()) == (5, rows)
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights(learner).items())


@pytest.mark.parametrize("source", [3, b"a", ["a"], "x" * 1001])
def test_malformed_sources_are_refused(source: Any) -> None:
    with pytest.raises(InputError, match="source"):
        made().observe(*batch(0), source=source)


@pytest.mark.parametrize("ids", [None, 1.5, [1.5], [True], object(), [None]])
def test_forget_refuses_what_is_not_an_id(ids: Any) -> None:
    learner = made()
    learner.observe(*batch(0), ids=list("abcde"))
    with pytest.raises(InputError):
        learner.forget(ids)


@pytest.mark.parametrize(
    "ids", [[1, 2, 3, 4, 5], (1, 2, 3, 4, 5), range(1, 6), np.arange(1, 6), torch.arange(1, 6)]
)
def test_ids_may_be_arrays(ids: Any) -> None:
    learner = made()
    learner.observe(*batch(0), ids=ids)
    assert [row.id for row in learner.remembered()] == [1, 2, 3, 4, 5]


def test_the_table_has_id_label_age_and_source() -> None:
    learner = made()
    assert learner.remembered() == []
    learner.observe([1.0, 0, 0, 0], "up", ids="ann", source="door")
    learner.observe([[0.0, 1, 0, 0], [0, 0, 1, 0]], ["down", "up"], ids=[None, 7])
    learner.observe([0.0, 0, 0, 1], "up")
    assert [tuple(row) for row in learner.remembered()] == [
        ("ann", "up", 3, "door"),
        (None, "down", 2, None),
        (7, "up", 1, None),
        (None, "up", 0, None),
    ]
    pandas = pytest.importorskip("pandas")
    assert list(pandas.DataFrame(learner.remembered()).columns) == ["id", "label", "age", "source"]


def test_all_examples_of_an_id_are_forgotten() -> None:
    learner = made()
    learner.observe(*batch(0), ids=["a", "b", "a", "b", "a"])
    assert learner.forget("a").rows == 3
    assert [row.id for row in learner.remembered()] == ["b", "b"]
    assert learner.forget({"a", "b"}).unknown == ["a"]


def test_ids_may_begin_later_and_left_out_examples_have_none() -> None:
    learner = made()
    learner.observe(*batch(0))
    x, y = batch(1)
    x[1] = np.nan
    learner.observe(x, y, ids=list("abcde"))
    rows = learner.remembered()
    assert [row.age for row in rows[:3]] == [None] * 3
    assert "b" not in {row.id for row in rows}
    assert learner.forget("b").unknown == ["b"]


def test_numbers_change_nothing_that_is_learned() -> None:
    plain, named = made(), made()
    for step in range(20):
        plain.observe(*batch(step))
        named.observe(*batch(step), ids=[f"{step}/{i}" for i in range(5)])
    one, other = weights(plain), weights(named)
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_a_step_that_failed_leaves_no_id() -> None:
    learner = Learner(MLP(4, 3), DERpp(0.1, 0.5), memory=8, replay=3, clip=math.inf)
    learner.observe(*batch(0), ids=list("abcde"))
    x, y = batch(1)
    learner.lr = 1e30
    with pytest.raises(DivergedError):
        learner.observe(x * 1e20, y, ids=list("vwxyz"), on_outlier="learn")
    learner.lr = 0.01
    learner.observe(*batch(1))
    assert {row.id for row in learner.remembered()} <= {*"abcde", None}


def test_ids_are_in_files_and_pickles(tmp_path: Path) -> None:
    learner = made()
    for step in range(8):
        learner.observe(*batch(step), ids=[f"{step}/é\ud800{i}" for i in range(5)], source="s")
    learner.save(tmp_path / "saved")
    loaded = Learner.load(tmp_path / "saved", network())
    assert loaded.remembered() == learner.remembered()
    assert pickle.loads(pickle.dumps(learner)).remembered() == learner.remembered()
    assert b"0/" not in (tmp_path / "saved").read_bytes() or "0/" in str(learner.remembered())


def test_the_table_of_ids_is_bounded() -> None:
    learner = made()
    for step in range(300):
        learner.observe(*batch(step), ids=[f"{step}/{i}" for i in range(5)])
    assert len(learner._now.names._table) <= 2 * 8 + 1000 + 5


@pytest.mark.parametrize("name", ["learner", "er-hybrid", "er-kmeans", "gss"])
def test_an_old_file_has_labels_without_ids_and_ages(name: str) -> None:
    learner = Learner.load(FILES / f"{name}-0.1.recollect", MLP(6, 3, hidden=(8,)))
    rows = learner.remembered()
    assert rows
    assert all((row.id, row.age, row.source) == (None, None, None) for row in rows)
    assert all(row.label in learner.classes for row in rows)
    learner.observe(np.zeros((1, 6), dtype=np.float32), [rows[0].label], ids=["new"])
    assert learner.forget("new").rows in (0, 1)


@pytest.mark.parametrize("size", [30, 5])
@pytest.mark.parametrize(
    "method", [DERpp(0.1, 0.5), ER(balanced=True), GSS()], ids=lambda m: m.name
)
def test_a_resized_memory_fills_and_resumes_exactly(method: Any, size: int, tmp_path: Path) -> None:
    learner = Learner(network(), method, memory=12, replay=4, lr=0.05)
    for step in range(8):
        learner.observe(*batch(step), ids=[f"{step}/{i}" for i in range(5)])
    before = learner.remembered()
    learner.resize(size)
    after = learner.remembered()
    assert set(after) <= set(before)
    assert len(after) == min(12, size)
    learner.save(tmp_path / "saved")
    again = Learner.load(tmp_path / "saved", network())
    for each in (learner, again):
        for step in range(8, 14):
            each.observe(*batch(step), ids=[f"{step}/{i}" for i in range(5)])
    assert len(learner.remembered()) == size
    assert learner.remembered() == again.remembered()
    one, other = weights(learner), weights(again)
    assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def test_a_balanced_memory_that_got_larger_is_balanced_again() -> None:
    learner = Learner(network(), ER(balanced=True), memory=9, replay=4, lr=0.01)
    rng = np.random.default_rng(0)

    def learn(count: int) -> None:
        for _ in range(count):
            y = rng.choice(3, size=5, p=[0.8, 0.1, 0.1]).tolist()
            learner.observe(rng.normal(size=(5, 4)).astype(np.float32), y)

    learn(40)
    learner.resize(30)
    learn(60)
    labels = [row.label for row in learner.remembered()]
    assert sorted(labels.count(label) for label in range(3)) == [10, 10, 10]


def test_a_class_that_was_stored_whole_still_grows_after_forgetting() -> None:
    learner = Learner(network(), ER(balanced=True), memory=12, replay=4, lr=0.01)
    rng = np.random.default_rng(0)

    def learn(labels: list[int], ids: list[str]) -> None:
        x = rng.normal(size=(len(labels), 4)).astype(np.float32)
        learner.observe(x, labels, ids=ids)

    learn([0] * 30, ["common"] * 30)
    learn([1, 1], ["rare", "other"])
    learner.forget("rare")
    learn([0], ["fills"])
    for _ in range(10):
        learn([1], ["more"])
    labels = [row.label for row in learner.remembered()]
    assert labels.count(1) == 6


def test_a_resized_learner_is_the_one_that_was_made(tmp_path: Path) -> None:
    with made(checkpoints=tmp_path) as learner:
        learner.observe(*batch(0))
        learner.resize("2 KB")
        learner.checkpoint()
    again = made().resumed(tmp_path)
    assert again is not None
    again.resize(4)
    assert len(again.remembered()) == 4
    again.close()


@pytest.mark.parametrize("memory", [0, -1, True, "many", "1 B", 2.5, None])
def test_sizes_that_are_none_are_refused(memory: Any) -> None:
    learner = made()
    learner.observe(*batch(0))
    with pytest.raises(InputError):
        learner.resize(memory)
    assert engine_of(learner).fleet.memory.capacity == 8
    assert learner._settings.memory == 8


@pytest.mark.parametrize("method", [ERRing(), ERHybrid()], ids=lambda m: m.name)
def test_memories_that_cannot_be_resized_say_so(method: Any) -> None:
    learner = Learner(network(), method, memory=12, replay=4, classes=[0, 1, 2])
    learner.observe(*batch(0))
    with pytest.raises(InputError, match="cannot be resized"):
        learner.resize(20)
    assert len(learner.remembered()) == 5


@pytest.mark.parametrize("weight", [None, 2.0])
@pytest.mark.parametrize(
    ("target", "y", "labels"),
    [
        ("class", ["a", "b"], ["a", "b"]),
        ("regression", [100.0, 250.0], [100.0, 250.0]),
        ("regression", [[1.0, 20.0], [3.0, 50.0]], [(1.0, 20.0), (3.0, 50.0)]),
        ("labels", [{"a", "b"}, set()], [{"a", "b"}, set()]),
    ],
)
def test_what_is_remembered_of_every_target(
    target: str, y: Any, labels: list[Any], weight: float | None
) -> None:
    outputs = 2 if target == "regression" and isinstance(y[0], list) else 1
    learner = Learner(MLP(2, outputs), ER(), memory=10, target=target)
    learner.observe(np.eye(2, dtype=np.float32), y, ids=["ann", "bob"], weight=weight)
    rows = learner.remembered()
    assert [row.id for row in rows] == ["ann", "bob"]
    for row, label in zip(rows, labels, strict=True):
        assert row.label == (pytest.approx(label) if target == "regression" else label)
    assert learner.forget("ann").rows == 1
    assert [row.id for row in learner.remembered()] == ["bob"]
