"""Experiments with a class-balanced memory: identities, grids, fleets, and what continues."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import recollect
from recollect import DER, ER, SGD, DERpp, InputError
from recollect.experiments.choices import usual
from recollect.experiments.plan import plan
from recollect.methods import ERACE, Method, hyperparameters, setup_of
from recollect.methods.setup import Spec
from recollect.streams import benchmark
from recollect.testing import check_method

BALANCED: list[Method] = [
    ER(balanced=True), DER(balanced=True), DERpp(balanced=True), ERACE(balanced=True),
]  # fmt: skip


def identity(method: Method) -> dict[str, float]:
    """The hyper-parameters in the identity of a run."""
    known = benchmark("seq-digits")
    own = {name: getattr(method, name) for name in hyperparameters(type(method))}
    made = plan(type(method), seeds=1, benchmark=known, buffer=20, values=own)
    (job,) = made.jobs(known.stream())
    return dict(job.planned[0].hyperparameters)


@pytest.mark.parametrize("method", BALANCED, ids=lambda m: m.name)
def test_a_run_without_it_is_what_it_was(method: Method) -> None:
    plain = type(method)()
    assert "balanced" not in identity(plain)
    assert identity(method) == {**identity(plain), "balanced": 1.0}
    assert "balanced" not in repr(plain)
    assert repr(method).endswith("balanced=True)")


@pytest.mark.parametrize("method", BALANCED, ids=lambda m: m.name)
def test_it_keeps_the_promises_of_every_method(method: Method) -> None:
    check_method(method)


def test_labels_are_stored_where_the_policy_reads_them() -> None:
    spec = Spec(1, 20, 4, 1, 4, (3,))
    names = [setup_of(each, spec).replay for each in (DER(), DER(balanced=True))]
    assert [each.names for each in names if each] == [("x", "logits"), ("x", "logits", "y")]


def test_a_fleet_is_its_runs_and_spans_the_grid() -> None:
    both = recollect.run("seq-digits", "er", buffer=30, seeds=2, balanced=[0, 1], workers=1)
    assert [run.hyperparameters.get("balanced", 0) for run in both] == [0, 0, 1, 1]
    alone = recollect.run("seq-digits", ER(balanced=True), buffer=30, seeds=[1], workers=1)
    assert alone[0].accuracy == both[3].accuracy
    assert both[3].accuracy != both[1].accuracy
    assert [usual(run) for run in both] == [True, True, False, False]


def test_a_stored_run_is_found_again(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    first = recollect.run("seq-digits", "der", buffer=20, seeds=1, balanced=True, store=store)
    again = recollect.run("seq-digits", "der", buffer=20, seeds=1, balanced=True, store=store)
    assert first[0].accuracy == again[0].accuracy
    assert first[0].identity.key == again[0].identity.key
    assert first[0].train_seconds == again[0].train_seconds


def test_a_search_over_it_finds_the_better(tmp_path: Path) -> None:
    found = recollect.search(
        "seq-digits", "er", buffer=30, lr=[0.1], balanced=[0, 1], seeds=1, workers=1
    )
    assert {one.values["balanced"] for one in found.tried} == {0, 1}
    assert "balanced" in str(found)


@pytest.mark.parametrize(("value", "message"), [(2, "1 \\(on\\) or 0 \\(off\\)"), (0.5, "not 0.5")])
def test_it_is_on_or_off(value: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        recollect.run("seq-digits", "er", buffer=20, seeds=1, balanced=value)


def test_a_method_without_a_reservoir_does_not_have_it() -> None:
    with pytest.raises(InputError, match="SGD has no hyper-parameter 'balanced'"):
        recollect.run("seq-digits", SGD(), seeds=1, balanced=True)


def test_a_network_that_was_saved_without_it_loads(tmp_path: Path) -> None:
    (run,) = recollect.run("seq-digits", "er", buffer=20, seeds=1, save_networks=tmp_path)
    assert sum(weight.numel() for weight in run.module().parameters()) > 1000
    assert torch.is_tensor(next(run.module().parameters()))
