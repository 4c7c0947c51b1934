"""What a person meets first: the names, a quick import, and the README."""

from __future__ import annotations

import inspect
import os
import re
import runpy
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import recollect

README = Path(__file__).parents[1] / "README.md"
HEAVY = ("rich", "sklearn", "torch._inductor")


def python_blocks() -> list[str]:
    """The README's blocks of Python, as they are at this moment."""
    if not README.exists():
        return []
    text = README.read_text("utf-8")
    return re.findall(r"^```python[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


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
    project = (README.parent / "pyproject.toml").read_text("utf-8")
    assert f'version = "{recollect.__version__}"' in project
    try:
        installed = metadata.version("recollect")
    except metadata.PackageNotFoundError:
        return
    assert installed == recollect.__version__


def test_importing_it_imports_nothing_heavy() -> None:
    """Nor does the command line, until it prints a table."""
    script = (
        "import sys, recollect; library = set(sys.modules); import recollect.cli.main; "
        f"print([[m for m in {HEAVY} if m in found] for found in (library, set(sys.modules))])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "[[], []]"


def test_the_readme_has_python() -> None:
    assert python_blocks(), f"no block of Python in {README}"


@pytest.mark.parametrize("number", range(max(len(python_blocks()), 1)))
def test_the_readmes_python_runs(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each block as a script of its own, in an empty folder, with bundled or invented data."""
    blocks = python_blocks()
    if number >= len(blocks):
        pytest.skip("the README has no Python yet")
    assert "mnist" not in blocks[number].lower(), "needs a download: use the digits"
    script = tmp_path / f"block_{number + 1}.py"
    script.write_text(blocks[number], "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RECOLLECT_OFFLINE", raising=False)
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    runpy.run_path(str(script), run_name="__main__")
    assert not (tmp_path / "cache").exists(), "something was fetched"
