"""Heads in closed form against references that were derived from their publications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tests.methods.references import ncm, ranpac, slda
from torch import Tensor, nn

from recollect import MLP, Fleet, InputError, Learner, Method, from_arrays, run
from recollect.methods import NCM, SLDA, RanPAC
from recollect.methods.closed_form import Solved
from recollect.methods.ranpac import Projected

RUNS, COUNT, SIZE, CLASSES = 3, 41, 6, 5
SEEN = [0, 1, 3]  # classes 2 and 4 never occur
CLOSE: Any = {"rtol": 1e-10, "atol": 1e-10}
KINDS: list[Method] = [
    NCM(),
    NCM(normalise=1),
    SLDA(),
    SLDA(shrinkage=0.1, exact=1),
    RanPAC(M=30, lambda_=0.5),
]


@pytest.fixture(scope="module")
def data() -> tuple[Tensor, Tensor, Tensor]:
    """Examples of three runs whose classes differ, their labels, and others to score."""
    generator = torch.Generator().manual_seed(3)
    y = torch.tensor(SEEN)[torch.randint(3, (RUNS, COUNT), generator=generator)]
    x = torch.rand(RUNS, COUNT, SIZE, dtype=torch.float64, generator=generator)
    return x + y[:, :, None] * 0.3, y, torch.rand(RUNS, 9, SIZE, dtype=torch.float64)


def trained(methods: Sequence[Method], x: Tensor, y: Tensor, batch: int, net: Any = None) -> Fleet:
    fleet = Fleet(
        methods, net or (lambda: MLP(SIZE, CLASSES, hidden=())), seeds=[0, 1, 2],
        lr=[0.1] * len(methods), classes=CLASSES, shape=(SIZE,), dtype=torch.float64,
    )  # fmt: skip
    fleet.learn(x, y, batch)
    return fleet


@pytest.mark.parametrize("batch", [1, 7, COUNT])
def test_ncm_is_its_reference(data: tuple[Tensor, Tensor, Tensor], batch: int) -> None:
    x, y, queries = data
    found = trained([NCM()] * RUNS, x, y, batch).predict(queries)
    for k in range(RUNS):
        expected = ncm.scores(ncm.fit(x[k], y[k]), queries[k], [*range(CLASSES)])
        torch.testing.assert_close(found[k][:, SEEN], expected[:, SEEN] / 2, **CLOSE)


def test_normalised_ncm_is_the_reference_on_unit_vectors(
    data: tuple[Tensor, Tensor, Tensor],
) -> None:
    x, y, queries = data
    found = trained([NCM(normalise=1)] * RUNS, x, y, 7).predict(queries)
    for k in range(RUNS):
        state = ncm.fit(x[k] / x[k].norm(dim=1, keepdim=True), y[k])
        cosine = ncm.scores(state, queries[k], SEEN, "cosine")
        # For unit vectors, minus half the squared distance is the cosine minus one.
        torch.testing.assert_close(found[k][:, SEEN], cosine - 1, **CLOSE)


@pytest.mark.parametrize("exact", [0, 1])
@pytest.mark.parametrize("batch", [1, 7, COUNT])
def test_slda_is_its_reference(data: tuple[Tensor, Tensor, Tensor], batch: int, exact: int) -> None:
    x, y, queries = data
    shares = [1e-4, 1e-2, 0.5]
    fleet = trained([SLDA(share, exact) for share in shares], x, y, batch)
    found = fleet.predict(queries)
    for k, share in enumerate(shares):
        state = slda.fit(x[k], y[k], bool(exact))
        torch.testing.assert_close(fleet.state["covariance"][k], state.covariance, **CLOSE)
        expected = slda.scores(state, queries[k], SEEN, share)
        torch.testing.assert_close(found[k][:, SEEN], expected, **CLOSE)


@pytest.mark.parametrize("batch", [1, 7, COUNT])
def test_ranpac_is_its_reference(data: tuple[Tensor, Tensor, Tensor], batch: int) -> None:
    x, y, queries = data
    ridges = [0.1, 1.0, 10.0]
    fleet = trained([RanPAC(30, ridge) for ridge in ridges], x, y, batch)
    found, projections = fleet.predict(queries), fleet.weights.named()["head.weight"]
    assert not torch.equal(projections[0], projections[1]), "one for every seed"
    for k, ridge in enumerate(ridges):
        start = ranpac.empty(30, CLASSES)
        h = ranpac.project(x[k], projections[k])
        gram, sums = ranpac.accumulate(start.gram, start.sums, h, y[k])
        torch.testing.assert_close(fleet.state["gram"][k], gram, **CLOSE)
        state = ranpac.RanpacState(gram, sums, ridge)
        expected = ranpac.scores(state, ranpac.project(queries[k], projections[k]))
        torch.testing.assert_close(found[k][:, SEEN], expected[:, SEEN], **CLOSE)


@pytest.mark.parametrize("method", KINDS, ids=repr)
def test_a_class_without_examples_is_never_predicted(
    method: Method, data: tuple[Tensor, Tensor, Tensor]
) -> None:
    x, y, queries = data
    found = trained([method] * RUNS, x, y, 7).predict(queries)
    assert set(found.argmax(2).flatten().tolist()) <= set(SEEN)
    assert float(found[:, :, 2].max()) < -1e8


def networks() -> list[nn.Module]:
    hidden = nn.Sequential(nn.Linear(SIZE, 4), nn.ReLU(), nn.Linear(4, CLASSES))
    return [nn.Linear(SIZE, CLASSES), MLP(SIZE, CLASSES), hidden]


@pytest.mark.parametrize("net", networks(), ids=lambda net: type(net).__name__)
@pytest.mark.parametrize("method", KINDS, ids=repr)
def test_the_module_predicts_without_recollect(
    method: Method, net: nn.Module, data: tuple[Tensor, Tensor, Tensor]
) -> None:
    x, y, queries = data
    classes = ["a", "b", "c", "d", "e"]
    learner = Learner(net.double(), method, classes=classes)
    learner.observe(x[0].float(), [classes[label] for label in y[0].tolist()])
    module = learner.trained_module()
    with torch.no_grad():
        scores = module(queries[0].float().double()).double()
    expected = torch.as_tensor(learner.predict_proba(queries[0].float()))
    torch.testing.assert_close(scores.softmax(1), expected, rtol=1e-6, atol=1e-6)


def test_the_features_are_the_examples_where_no_network_is_given() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 4
    x = torch.randn(60, 2, 3, generator=generator) + y[:, None, None]
    stream = from_arrays(x, y, tasks=2)
    for kind in (NCM, SLDA, RanPAC(M=20)):
        (result,) = run(stream, kind, seeds=1, workers=1)
        assert result.accuracy["class"] > 40


def test_what_cannot_be_solved_for_says_what_to_raise(
    data: tuple[Tensor, Tensor, Tensor],
) -> None:
    x, y, queries = data
    fleet = trained([RanPAC(200, 0.0)] * RUNS, x, y, 7)  # more equations than examples
    with pytest.raises(InputError, match="increase lambda"):
        fleet.predict(queries)


def test_equations_are_solved_once_between_two_steps(
    data: tuple[Tensor, Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, queries = data
    fleet, solved = trained([SLDA()] * RUNS, x, y, 7), list[Tensor]()
    whole = torch.linalg.cholesky_ex

    def noted(matrix: Tensor) -> object:
        solved.append(matrix)
        return whole(matrix)

    monkeypatch.setattr("torch.linalg.cholesky_ex", noted)
    first = fleet.predict(queries)
    assert torch.equal(fleet.predict(queries), first)
    assert len(solved) == 1
    fleet.learn(x[:, :1], y[:, :1], 1)
    assert not torch.equal(fleet.predict(queries), first)
    other = trained([SLDA()] * RUNS, x.flip(1), y.flip(1), 7)
    fleet.restore(other.tensors(), other.clock)  # as many steps, written from outside
    assert torch.equal(fleet.predict(queries), other.predict(queries))


def test_what_was_solved_goes_with_its_state() -> None:
    solved, tensor = Solved[int](), torch.zeros(1)
    assert solved(NCM(), tensor, 0, lambda: 5) == 5
    assert len(solved._entries) == 1
    del tensor
    assert not solved._entries


def test_a_projection_is_not_trained() -> None:
    assert not Projected(torch.randn(3, 4), nn.Linear(4, 2)).weight.requires_grad
