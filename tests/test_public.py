"""What a person meets first: the names, the version, and a quick import."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

import recollect

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
HEAVY = ("rich", "sklearn", "torch._inductor")


@pytest.mark.parametrize("name", recollect.__all__)
def test_every_public_name_exists_and_is_explained(name: str) -> None:
    public = getattr(recollect, name)
    own = vars(public).get("__doc__") if inspect.isclass(public) else public.__doc__
    assert own, "a docstring of its own"
    first = own.strip().splitlines()[0]
    assert first.endswith((".", ":"))
    # A dataclass without a docstring is given its signature.
    assert not first.startswith(f"{name}(")


def test_the_public_names_are_a_set_in_order() -> None:
    assert len(set(recollect.__all__)) == len(recollect.__all__)
    everything: dict[str, object] = {}
    exec("from recollect import *", everything)
    assert set(recollect.__all__) <= set(everything)


def test_the_version_is_that_of_the_package() -> None:
    assert f'version = "{recollect.__version__}"' in PROJECT.read_text("utf-8")
    try:
        installed = metadata.version("recollect")
    except metadata.PackageNotFoundError:
        return
    assert installed == recollect.__version__


def test_importing_it_imports_nothing_heavy(python: Callable[..., str]) -> None:
    """Nor does the command line, until it prints a table."""
    script = (
        "import sys, recollect; library = set(sys.modules); import recollect.cli.main; "
        f"print([[m for m in {HEAVY} if m in found] for found in (library, set(sys.modules))])"
    )
    assert python("-c", script).strip() == "[[], []]"
