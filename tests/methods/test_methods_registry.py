"""Methods by name, and what they declare."""

from __future__ import annotations

import pytest

from recollect import DER, ER, SGD, DERpp, Joint
from recollect.errors import InputError
from recollect.methods import METHODS, hyperparameters, method


def test_every_method_is_known_by_its_own_name() -> None:
    rehearsal = {"er", "mer", "gem", "agem", "agem-r", "icarl", "fdr", "gss", "der", "derpp"}
    assert {"joint", "sgd", *rehearsal} <= set(METHODS)
    assert all(method(name).name == name for name in METHODS)


def test_hyperparameters_have_the_papers_symbols() -> None:
    names = {kind: tuple(hyperparameters(kind)) for kind in (SGD, ER, DER, DERpp, Joint)}
    assert names == {
        SGD: (), ER: ("balanced",), DER: ("alpha", "balanced"),
        DERpp: ("alpha", "beta", "balanced"), Joint: (),
    }  # fmt: skip


def test_the_general_methods_need_no_boundaries_and_only_joint_needs_everything() -> None:
    general = {"joint", "sgd", "er", "mer", "gss", "agem-r", "der", "derpp"}
    general |= {"er-ring", "er-kmeans", "er-mof", "er-hybrid", "er-ace", "cls-er", "scr", "star"}
    general |= {"ncm", "slda", "ranpac"}
    assert {n for n, kind in METHODS.items() if not kind.needs.boundaries} <= general
    assert [kind for kind in METHODS.values() if kind.needs.all_data] == [Joint]


def test_an_unknown_method_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError, match=r"unknown method 'derp': did you mean 'der(pp)?'\?"):
        method("derp")
