"""Where there is no C++ compiler, one line says so."""

from __future__ import annotations

import warnings

import pytest

from recollect.cli.main import main
from recollect.errors import SlowerWarning
from recollect.train import execution


@pytest.fixture(autouse=True)
def afresh() -> None:
    """Nothing was said before."""
    execution.say_slower.cache_clear()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_missing_compiler_is_one_line_where_compiling_would_have_paid(
    workers: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("recollect.train.compiled.compiler_exists", lambda: False)
    for pays in (False, True):
        monkeypatch.setattr("recollect.train.compiled.compiling_pays", lambda *_, pays=pays: pays)
        with warnings.catch_warnings():
            warnings.simplefilter("default", SlowerWarning)
            status = main(["run", "seq-digits", "sgd", "--fresh", "--seeds", "2",
                           "--workers", workers])  # fmt: skip
        assert status == 0
        assert [
            line for line in capfd.readouterr().err.splitlines() if "compile" in line
        ] == pays * [
            "recollect: no C++ compiler was found, so steps run uncompiled, which gives the same "
            "results more slowly: install g++ or clang++"
        ]
