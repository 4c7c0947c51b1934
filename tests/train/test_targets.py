"""Fleets and runs on values and several labels: equations by hand, refusals, measures."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from recollect import ER, MLP, SGD, DERpp, Fleet, Method, Results, Step, from_arrays, run
from recollect.core.targets import LABELS, REGRESSION, Target, with_weights
from recollect.errors import InputError
from recollect.experiments.difference import Difference, as_text
from recollect.experiments.exports import columns
from recollect.experiments.files import read_json, write_runs
from recollect.experiments.report import build
from recollect.experiments.search import by_criterion
from recollect.experiments.store import Store
from recollect.methods import METHODS, Classifier
from recollect.train.evaluate import scores
from recollect.train.measures import measure

RNG = np.random.default_rng(0)
X = torch.from_numpy(RNG.normal(size=(2, 60, 4)))
VALUES = torch.stack([X.sum(2).tanh(), X[..., 0] * X[..., 1]], 2)
HAS = (VALUES > 0).to(torch.int8)
OTHER = [name for name, kind in METHODS.items() if not issubclass(kind, Classifier)]


def by_hand_values(outputs: Tensor, y: Tensor) -> Tensor:
    return mse_loss(outputs, y.to(outputs))


def by_hand_labels(outputs: Tensor, y: Tensor) -> Tensor:
    each = binary_cross_entropy_with_logits(outputs, y.to(outputs), reduction="none")
    return each.sum(1).mean()


def fleet_of(method: Method, target: Target, runs: int = 1, **changes: Any) -> Fleet:
    settings = {
        "seeds": list(range(runs)), "lr": [0.1] * runs, "classes": 2, "shape": (4,), "memory": 20,
        "replay": 5, "stored": torch.float64, "dtype": torch.float64, "target": target, **changes,
    }  # fmt: skip
    return Fleet([method] * runs, partial(MLP, 4, 2, hidden=(8,)), **settings)


def by_hand(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """The outputs of an MLP with a hidden layer, written out."""
    first, second = (n.removesuffix(".weight") for n in weights if n.endswith("weight"))
    hidden = torch.relu(x @ weights[f"{first}.weight"] + weights[f"{first}.bias"])
    return hidden @ weights[f"{second}.weight"] + weights[f"{second}.bias"]


@pytest.mark.parametrize(
    ("target", "y", "loss"), [(REGRESSION, VALUES, by_hand_values), (LABELS, HAS, by_hand_labels)]
)
@pytest.mark.parametrize("kind", [ER, DERpp])
def test_steps_are_those_of_a_loop_by_hand(
    kind: type[Method], target: Target, y: Tensor, loss: Callable[[Tensor, Tensor], Tensor]
) -> None:
    """The whole step in plain torch, with the draws that the fleet had; no loss of the library."""
    drawn: list[list[dict[str, Tensor]]] = []

    class Noting(kind):  # type: ignore[misc, valid-type]
        def loss(self, step: Step) -> Tensor:
            drawn.append([{n: t[0].clone() for n, t in each.items()} for each in step.replays])
            return super().loss(step)  # type: ignore[no-any-return]

    fleet = fleet_of(Noting(), target)
    weights = {n: t[0].clone() for n, t in fleet.weights.named().items()}
    stored = list[tuple[Tensor, Tensor, Tensor]]()
    for start in range(0, 60, 6):
        x, wanted = X[0, start : start + 6], y[0, start : start + 6]
        before = {n: t.clone().requires_grad_() for n, t in weights.items()}
        fleet.learn(x[None], wanted[None], 6)
        outputs = by_hand(before, x)
        draws = drawn[-1]
        for draw in draws:  # each drawn example was stored as it came, with the outputs of then
            for position in range(len(draw["x"])):
                found = [s for s in stored if torch.equal(s[0], draw["x"][position])]
                assert len(found) == 1
                assert torch.allclose(found[0][1].double(), draw["y"][position].double())
                if "logits" in draw:
                    assert torch.allclose(found[0][2], draw["logits"][position])
        if kind is ER:
            (past,) = draws
            every = torch.cat([outputs, by_hand(before, past["x"])])
            total = loss(every, torch.cat([wanted, past["y"].to(wanted.dtype)]))
        else:
            total, (first, second) = loss(outputs, wanted), draws
            if len(first["x"]):
                total = total + 0.5 * mse_loss(by_hand(before, first["x"]), first["logits"])
                total = total + 0.5 * loss(by_hand(before, second["x"]), second["y"])
        gradients = torch.autograd.grad(total, list(before.values()))
        weights = {
            n: (w - 0.1 * g).detach() for (n, w), g in zip(before.items(), gradients, strict=True)
        }
        stored += zip(x, wanted.to(torch.float32), outputs.detach(), strict=True)
        for name, tensor in fleet.weights.named().items():
            assert torch.allclose(tensor[0], weights[name], atol=1e-6), (name, start)
    assert len(drawn) == 10
    assert len(drawn[-1][0]["x"]) == 5


@pytest.mark.parametrize("name", OTHER)
@pytest.mark.parametrize(("target", "y"), [(REGRESSION, VALUES), (LABELS, HAS)])
def test_a_run_in_a_fleet_is_the_run_alone(name: str, target: Target, y: Tensor) -> None:
    kind = METHODS[name]
    both = fleet_of(kind(), target, 2, tasks=2)
    alone = fleet_of(kind(), target, seeds=[1], tasks=2)
    if kind.needs.task_id:
        return
    for fleet, runs in ((both, slice(0, 2)), (alone, slice(1, 2))):
        for part in (slice(0, 30), slice(30, 60)):
            x, wanted = X[runs, part], y[runs, part]

            def pick(index: Tensor, x: Tensor = x, y: Tensor = wanted) -> tuple[Tensor, Tensor]:
                rows = torch.arange(len(index))[:, None]
                return x[rows, index], y[rows, index]

            fleet.start_task(pick, 30)
            fleet.learn(x, wanted, kind.needs.batch_size or 6)
            fleet.end_task(pick, 30)
            fleet.next_task(30)
    for (key, tensor), mine in zip(both.tensors().items(), alone.tensors().values(), strict=True):
        if not key.startswith("memory."):
            assert torch.allclose(tensor[1], mine[0], atol=1e-9), key


@pytest.mark.parametrize("kind", [ER, DERpp, SGD])
def test_weights_of_one_change_nothing_and_a_weight_of_zero_removes(kind: type[Method]) -> None:
    plain, ones = (fleet_of(kind(), t) for t in (REGRESSION, REGRESSION.with_weights()))
    plain.learn(X[:1], VALUES[:1], 6)
    ones.learn(X[:1], with_weights(VALUES[:1], torch.ones(1, 60)), 6)
    for one, other in zip(plain.weights, ones.weights, strict=True):
        assert torch.allclose(one, other, atol=1e-9)
    still = fleet_of(SGD(), REGRESSION.with_weights())
    before = [t.clone() for t in still.weights]
    still.learn(X[:1], with_weights(VALUES[:1], torch.zeros(1, 60)), 6)
    assert all(torch.equal(t, b) for t, b in zip(still.weights, before, strict=True))


def test_replayed_examples_have_their_weights() -> None:
    fleet = fleet_of(ER(), LABELS.with_weights())
    weights = torch.arange(1.0, 21.0)[None]
    fleet.learn(X[:1, :20], with_weights(HAS[:1, :20], weights), 5)
    assert fleet.memory.fields().y[0, :, 0].tolist() == weights[0].tolist()


@pytest.mark.parametrize("name", [n for n, k in METHODS.items() if issubclass(k, Classifier)])
def test_methods_that_read_classes_are_refused(name: str) -> None:
    for target in (REGRESSION, LABELS):
        with pytest.raises(InputError, match="needs the class of every example"):
            fleet_of(METHODS[name](), target)
    with pytest.raises(InputError, match="needs classes"):
        fleet_of(ER(balanced=1), REGRESSION)


def test_an_error_that_rises_is_forgetting() -> None:
    matrix = np.array([[1.0, 4.0], [3.0, 0.5]])
    found = scores(matrix, np.array([5.0, 5.0]), "rmse")
    assert (found.accuracy, found.fwt, found.bwt, found.forgetting) == (1.75, 1.0, -2.0, 2.0)


def test_measures_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    outputs = VALUES + torch.from_numpy(RNG.normal(size=VALUES.shape)).round(decimals=1)
    found = measure("regression", outputs, VALUES)
    some = measure("labels", outputs, HAS)
    for k in range(2):
        o, v, h = outputs[k].numpy(), VALUES[k].numpy(), HAS[k].numpy()
        assert float(found["rmse"][k]) == pytest.approx(metrics.root_mean_squared_error(v, o))
        assert float(found["mae"][k]) == pytest.approx(metrics.mean_absolute_error(v, o))
        assert float(found["r2"][k]) == pytest.approx(metrics.r2_score(v, o))
        said = (o > 0).astype(int)
        assert float(some["f1"][k]) == pytest.approx(
            100 * metrics.f1_score(h, said, average="micro")
        )
        macro = 100 * metrics.f1_score(h, said, average="macro")
        assert float(some["macro_f1"][k]) == pytest.approx(macro)
        assert float(some["hamming"][k]) == pytest.approx(100 * metrics.hamming_loss(h, said))
        precision = 100 * metrics.average_precision_score(h, o)
        assert float(some["average_precision"][k]) == pytest.approx(precision)


def returning() -> Any:
    """Two regimes of one input, of which the first comes back at the test."""
    x = RNG.normal(size=(400, 3)).astype(np.float32)
    task = np.repeat([0, 1], 200)
    x[:, 0] = task
    y = np.where(task == 0, x[:, 1] + x[:, 2], x[:, 1] - x[:, 2])
    return from_arrays(x, y, scenario="domain", task_ids=task, target="regression", name="regimes")


def test_replay_forgets_less_of_a_regression_stream() -> None:
    stream, found = returning(), dict[str, Results]()
    for name, buffer in (("sgd", None), ("er", 100)):
        found[name] = run(stream, name, buffer=buffer, seeds=3, lr=0.05, epochs=5, workers=1)
    rmse = {n: np.mean([r.forgetting["rmse"] or 0 for r in each]) for n, each in found.items()}
    assert rmse["er"] < 0.7 * rmse["sgd"]
    result = found["er"][0]
    assert list(result.accuracy) == ["rmse", "mae", "r2"]
    assert "RMSE" in str(found["er"])
    assert result.accuracy["r2"] < 1
    assert stream.validation().parts(0)[0] < stream.parts(0)[0]


def test_the_target_and_weights_are_in_the_identity_of_a_run() -> None:
    x, y = RNG.normal(size=(40, 3)).astype(np.float32), np.arange(40) % 2
    keys = []
    for changes in ({}, {"target": "regression"}, {"weights": np.linspace(1, 2, 40)}):
        wanted = y.astype(np.float32) if "target" in changes else y
        stream = from_arrays(x, wanted, scenario="arrival", **changes)
        keys.append(run(stream, "sgd", seeds=1, lr=0.1, workers=1)[0].identity.key)
    assert len(set(keys)) == 3
    with pytest.raises(InputError, match="needs the class of every example, so it cannot learn "
                                         "from weighted examples"):  # fmt: skip
        run(stream, "er-ace", buffer=20, seeds=1, lr=0.1, workers=1)


def test_what_cannot_be_a_stream_is_refused() -> None:
    x, y = RNG.normal(size=(40, 3)), RNG.normal(size=40)
    cases = [
        ({}, "pass target='regression'"),
        ({"target": "regression"}, "gives every task some of the classes"),
        ({"target": "regresion"}, "did you mean 'regression'"),
        ({"target": "labels", "scenario": "arrival"}, r"a column for every label"),
        ({"target": "regression", "scenario": "arrival", "weights": -np.ones(40)}, "above 0"),
        ({"target": "regression", "scenario": "arrival", "weights": np.ones(3)}, "weights have"),
    ]
    for changes, said in cases:
        with pytest.raises(InputError, match=said):
            from_arrays(x, y, **changes)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="NaN or infinite"):
        from_arrays(x, y * np.nan, scenario="arrival", target="regression")
    with pytest.raises(InputError, match="confusion"):
        run(returning(), "sgd", seeds=1, lr=0.1, confusion=True, workers=1)


def test_results_of_values_are_saved_and_read_also_of_runs_that_diverged(tmp_path: Path) -> None:
    """Errors above 100, R² below 0 and infinite errors; no warning of numpy's."""
    x = RNG.normal(size=(60, 2)).astype(np.float32)
    stream = from_arrays(x, 1000 + x[:, 0], scenario="domain", task_ids=np.arange(60) % 2,
                         target="regression", name="far")  # fmt: skip
    results = run(stream, "sgd", seeds=1, lr=[1e-4, 1e9], curves=2, workers=1,
                  store=tmp_path / "store.sqlite")  # fmt: skip
    fine, lost = results
    assert fine.accuracy["rmse"] > 100
    assert fine.accuracy["r2"] < 0
    assert lost.diverged
    assert (lost.accuracy["rmse"], lost.accuracy["r2"]) == (math.inf, -math.inf)
    assert str(Results([lost])).startswith("far sgd: RMSE inf, MAE inf, R² -inf (1 seed, 1 div")
    results.save(tmp_path / "runs.json")
    found = Results.load(tmp_path / "runs.json")
    assert [*found] == [*results]
    write_runs(tmp_path / "runs.jsonl", found)
    assert Store(tmp_path / "other.sqlite").add(read_json(tmp_path / "runs.jsonl")) == 2
    with pytest.raises(InputError, match="2 runs are regression or"):
        build(Store(tmp_path / "other.sqlite").runs())
    assert by_criterion(results)[0].values["lr"] == 1e-4
    assert "final RMSE" in columns(results)


def test_small_errors_are_compared_with_their_digits() -> None:
    found = Difference("rmse", "accuracy", 0.00123, 0.00456, {0: -0.00333}, ("ER", "SGD"))
    assert as_text([found]).splitlines()[-1].split()[:5] == ["RMSE", "final", "0.00123", "0.00456",
                                                             "-0.00333"]  # fmt: skip
