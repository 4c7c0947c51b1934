"""Methods of recent years, each in one short file, pass `check_method`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.proofs.slda import SLDA

from recollect import Method, run
from recollect.testing import method_checks

PROOFS: list[type[Method]] = [SLDA]
CHECKS = [check for kind in PROOFS for check in method_checks(kind)]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: f"{check.subject}-{check.name}")
def test_proofs_keep_their_promises(check) -> None:  # type: ignore[no-untyped-def]
    if check.skipped:
        pytest.skip(check.skipped)
    check()


@pytest.mark.parametrize("kind", PROOFS, ids=lambda kind: kind.__name__)
def test_proofs_are_short_and_learn(kind: type[Method]) -> None:
    name = kind.__module__.rpartition(".")[2]
    lines = (Path(__file__).parent / f"{name}.py").read_text("utf-8").splitlines()
    assert len(lines) < 120
    memory = {"buffer": 100} if kind.replay else {}
    results = run("seq-digits", kind, seeds=2, lr=0.1, workers=1, **memory)  # type: ignore[arg-type]
    forgetful = run("seq-digits", "sgd", seeds=2, lr=0.1, workers=1)
    for run_, other in zip(results, forgetful, strict=True):
        assert run_.accuracy["class"] > other.accuracy["class"] + 20
