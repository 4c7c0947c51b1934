"""What a learner tells through the standard `logging`, and that it sets nothing up itself."""

from __future__ import annotations

import logging
import pickle

import numpy as np
import pytest

import recollect
from recollect import ER, MLP, SGD, DivergedError, Learner


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "recollect")
    return caplog


def test_new_classes_and_a_larger_head(told: pytest.LogCaptureFixture) -> None:
    learner = Learner(MLP(2, 1), ER(), memory=10, spare=1)
    learner.observe(np.eye(2), ["a", "b"])
    learner.observe(np.eye(2), ["a", "b"])
    learner.observe(np.ones((7, 2)), list("cdefgha"))
    assert told.messages == [
        "2 new class(es): 'a', 'b'; 2 are known",
        "the network was extended from 3 to 9 outputs",
        "6 new class(es): 'c', 'd', 'e', 'f', 'g' and 1 more; 8 are known",
    ]
    assert {record.levelname for record in told.records} == {"INFO"}
    assert {record.name for record in told.records} == {"recollect.learner"}


def test_a_memory_without_effect(told: pytest.LogCaptureFixture) -> None:
    learner = Learner(MLP(2, 1), SGD())
    learner.observe(np.eye(2), [0, 0])
    copy = pickle.loads(pickle.dumps(learner))
    assert "memory" not in told.text
    Learner(MLP(2, 1), SGD(), memory=100)
    assert told.messages[-1] == "memory=100 has no effect: SGD stores no examples"
    assert told.records[-1].levelname == "WARNING"
    assert copy.predict(np.eye(2)) == [0, 0]


def test_labels_that_no_file_can_have(told: pytest.LogCaptureFixture) -> None:
    learner = Learner(MLP(2, 1), ER(), memory=10)
    learner.observe(np.eye(2), [frozenset("a"), frozenset("b")])
    assert [record.levelname for record in told.records] == ["INFO", "WARNING"]
    assert told.messages[1].startswith(
        "this learner can learn and predict, but not be saved: the label froz"
    )
    learner.observe(np.eye(2), [frozenset("a"), frozenset("b")])
    assert len(told.records) == 2


def test_examples_that_are_left_out(told: pytest.LogCaptureFixture) -> None:
    learner = Learner(MLP(2, 1), ER(), memory=10)
    learner.observe(np.eye(2), [0, 1])
    told.clear()
    learner.observe([[1.0, 0.0], [np.nan, 0.0], [0.0, np.inf]], [0, 1, 1])
    (record,) = told.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == (
        "left out 2 of 3 examples: number 3 (and 1 more): it has values that are not finite (NaN "
        "or infinity)"
    )


def test_steps_that_are_undone(told: pytest.LogCaptureFixture) -> None:
    learner = Learner(MLP(2, 1), ER(), memory=10, lr=1e30)
    with pytest.raises(DivergedError):
        list(learner.follow([(np.eye(2), [0, 1])] * 20))
    record = told.records[-1]
    assert record.levelname == "WARNING"
    assert f"step {learner.steps + 1} was undone" in record.getMessage()


def test_the_library_sets_no_handler_that_writes() -> None:
    assert recollect is not None
    handlers = logging.getLogger("recollect").handlers
    assert [type(handler) for handler in handlers] == [logging.NullHandler]
    assert logging.getLogger("recollect").level == logging.NOTSET
