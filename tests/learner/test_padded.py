"""Networks that refuse an example of zeros: they are tried on real examples."""

from __future__ import annotations

import gc
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from tests.learner.padded import Picky, Recurrent, Transformer, padded

from recollect import ER, SGD, DERpp, InputError, Learner, Method, from_arrays, run
from recollect.learner.engine.probing import some_stored

pytestmark = pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype")

NETWORKS = [Transformer, Recurrent]
LABELS = list("abababab")


def learner_of(kind: Any, method: Method | None = None, **changes: Any) -> Learner:
    torch.manual_seed(0)
    return Learner(kind(), method or ER(), **{"memory": 20, **changes})


@pytest.mark.parametrize("method", [ER(), DERpp(), SGD()])
@pytest.mark.parametrize("kind", [*NETWORKS, Picky])
def test_a_network_that_refuses_zeros_learns_and_predicts(kind: Any, method: Method) -> None:
    learner, x = learner_of(kind, method), padded(kind)
    for _ in range(3):
        learner.observe(x, LABELS)
    assert set(learner.predict(x)) <= {"a", "b"}
    assert learner.predict({name: part[0] for name, part in x.items()}) in ("a", "b")


@pytest.mark.parametrize("method", [ER(), DERpp(), SGD()])
@pytest.mark.parametrize("kind", [*NETWORKS, Picky])
def test_it_gets_outputs_for_new_classes(kind: Any, method: Method) -> None:
    learner = learner_of(kind, method, spare=1)
    for first in range(0, 8, 2):
        learner.observe(padded(kind, 2, first), [first, first + 1])
    learner.observe(padded(kind, 2), [0, 1], weight=[2.0, 1.0])  # the memory stores weights now
    learner.observe(padded(kind, 2), [0, 1], ids=["ann", "bob"])
    if method.replay:
        learner.resize(30)
    assert learner.predict_proba(padded(kind)).shape == (8, 8)


@pytest.mark.parametrize(
    ("kind", "method"),
    [*((kind, method) for kind in NETWORKS for method in (ER(), SGD())), (Picky, ER())],
)
def test_it_is_saved_and_continues_exactly(kind: Any, method: Method, tmp_path: Path) -> None:
    learner, x = learner_of(kind, method, checkpoints=tmp_path / "all"), padded(kind)
    learner.observe(x, LABELS)
    learner.save(tmp_path / "one")
    learner.checkpoint()
    learner.close()
    loaded = Learner.load(tmp_path / "one", kind())
    resumed = Learner.resume(tmp_path / "all", kind())
    assert resumed is not None
    with resumed:
        more = padded(kind, 8, 1)
        assert (loaded.predict_proba(x) == learner.predict_proba(x)).all()
        assert loaded.observe(more, LABELS) == resumed.observe(more, LABELS)
        assert (loaded.predict_proba(x) == resumed.predict_proba(x)).all()


@pytest.mark.parametrize("kind", NETWORKS)
def test_it_loads_after_everything_was_forgotten(kind: Any, tmp_path: Path) -> None:
    learner, x = learner_of(kind), padded(kind)
    learner.observe(x, LABELS, ids=list(range(8)))
    assert learner.forget(list(range(8))).rows == 8
    learner.save(tmp_path / "saved")
    loaded = Learner.load(tmp_path / "saved", kind())
    assert (loaded.predict_proba(x) == learner.predict_proba(x)).all()
    loaded.observe(x, list("cdefghij"))  # more classes


@pytest.mark.parametrize("kind", [*NETWORKS, Picky])
def test_it_is_exported(kind: Any) -> None:
    learner, x = learner_of(kind), padded(kind)
    learner.observe(x, LABELS)
    module = learner.trained_module().eval()
    with torch.no_grad():
        found = module(**x).softmax(1)
    assert found.shape == (8, 2)
    assert torch.allclose(found, torch.from_numpy(learner.predict_proba(x)).float(), atol=1e-6)


def test_a_network_that_accepts_no_made_up_example_is_exported_without_a_stored_one() -> None:
    learner, x = learner_of(Picky, SGD()), padded(Picky)
    learner.observe(x, LABELS)
    module = learner.trained_module().eval()
    with torch.no_grad():
        assert module(**x).shape == (8, 2)


def test_a_batch_may_begin_with_an_empty_example() -> None:
    learner, x = learner_of(Transformer), padded(Transformer)
    for part in x.values():
        part[0] = 0
    learner.observe(x, LABELS)
    assert learner.seen == 8


def test_the_example_that_a_network_was_tried_on_is_not_kept() -> None:
    learner = learner_of(Picky, SGD())
    secret = torch.tensor([[0.125, 0.25, 0.375, 77.0]])
    learner.observe({"x": secret}, ["a"], ids=["ann"])
    learner.observe({"x": torch.rand(1, 4)}, ["b"])
    learner.forget("ann")
    word = int(secret.view(torch.int32)[0, 3])  # examples of several tensors are packed
    tensors = [each for each in _reachable(learner) if isinstance(each, torch.Tensor)]
    assert len(tensors) > 4
    assert not any(bool((each == word).any()) for each in tensors if each.dtype == torch.int32)


def test_a_refusal_of_made_up_examples_says_so(tmp_path: Path) -> None:
    learner = learner_of(Picky, SGD())
    learner.observe(padded(Picky), LABELS)
    learner.save(tmp_path / "saved")
    with pytest.raises(InputError, match=r"constant examples .*examples of zeros and of ones"):
        Learner.load(tmp_path / "saved", Picky())


@pytest.mark.parametrize("kind", NETWORKS)
def test_runs_on_a_stream_of_padded_examples(kind: Any) -> None:
    x, y = padded(kind, 40), torch.arange(40) % 4
    stream = from_arrays(x, y, tasks=2, scenario="class", test=(x, y))
    results = run(stream, ER(), network=lambda: kind(4), buffer=10, bs=8, lr=0.1, seeds=[0, 1])
    assert all(0 <= each.accuracy["class"] <= 100 for each in results)


def test_the_examples_of_a_memory_that_holds_any() -> None:
    x = torch.zeros(5, 3)
    assert some_stored(None) is None
    assert some_stored(x) is None
    x[4] = 1  # the spare row
    assert some_stored(x) is None
    x[2] = 1
    assert torch.equal(some_stored(x), x[2:3])  # type: ignore[arg-type]


def _reachable(start: object) -> list[Any]:
    """Every object that can be reached from another one, without classes and modules."""
    found, waiting = {id(start): start}, [start]
    while waiting:
        for each in gc.get_referents(waiting.pop()):
            world = isinstance(each, type | ModuleType)
            world = world or (isinstance(each, dict) and "__builtins__" in each)
            if not world and id(each) not in found:
                found[id(each)] = each
                waiting.append(each)
    return [*found.values()]
