"""The wheel: what is in it, and that it works where only its dependencies are."""

from __future__ import annotations

import os
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import blocks_of

from recollect import __version__
from recollect.cli.doctor import EXTRAS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "recollect"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="environments are made of links")

Get = Callable[[str], Any]

# Tables and pictures have their libraries when they are asked for, so importing needs torch, numpy
# and safetensors alone, and so does training.
EVERY_MODULE = """
import importlib, pkgutil, sys
for name in ("PIL", "rich"):
    sys.modules[name] = None  # importing it fails
import numpy as np, recollect
for found in pkgutil.walk_packages(recollect.__path__, "recollect."):
    try:
        importlib.import_module(found.name)
    except ModuleNotFoundError:
        print(found.name)
y = np.arange(120) % 4
stream = recollect.from_arrays(np.eye(4)[y], y, tasks=2)
assert recollect.run(stream, "derpp", buffer=10, seeds=1, workers=1)[0].steps > 0
"""


def test_it_has_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    about = f"recollect-{__version__}.dist-info"
    sources = {
        f"recollect/{path.relative_to(PACKAGE).as_posix()}"
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if not name.startswith(about)} == sources
    assert "recollect/py.typed" in names
    assert f"{about}/licenses/LICENSE" in names
    assert {Path(name).suffix for name in sources} <= {
        ".py", ".typed", ".csv", ".js", ".css", ".html",
    }  # fmt: skip
    assert not any("test_" in name or "conftest" in name for name in names)
    assert wheel.stat().st_size < 1_000_000
    scripts = zipfile.ZipFile(wheel).read(f"{about}/entry_points.txt").decode()
    assert scripts.split() == ["[console_scripts]", "recollect", "=", "recollect.cli.start:main"]


def test_its_extras_are_those_that_the_doctor_knows(wheel: Path) -> None:
    text = zipfile.ZipFile(wheel).read(f"recollect-{__version__}.dist-info/METADATA").decode()
    offered = set(re.findall(r"^Provides-Extra: (.+)$", text, re.MULTILINE))
    assert offered >= set(EXTRAS) | {"dev"}
    needed = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", text, re.MULTILINE)
    assert sorted(needed) == ["numpy", "pillow", "rich", "safetensors", "torch"]


def test_the_source_distribution_has_what_builds_and_tests_it(build: Any) -> None:
    with tarfile.open(build(ROOT, "sdist")) as archive:
        names = [Path(name).parts[1:] for name in archive.getnames()]
    top = {parts[0] for parts in names}
    assert top >= {"src", "tests", "docs", "examples", "benchmarks", "pyproject.toml", "LICENSE"}
    assert not {".git", ".venv", ".ci", ".local", "build", "dist", "site"} & top
    assert not any("__pycache__" in parts or parts[-1].endswith(".sqlite") for parts in names)
    assert ("src", "recollect", "py.typed") in names


# One test, not several: each worker of a parallel run would make the environment anew.
def test_without_extras_the_command_works_and_all_but_adapters_can_be_imported(
    environment: Get,
) -> None:
    bare = environment("")
    assert bare.run("recollect", "--version") == f"recollect {__version__}\n"
    said = bare.run("recollect", "doctor")
    assert len(said.splitlines()) < 25
    for extra in EXTRAS:
        assert re.search(rf"^-.* {extra}  +for ", said, re.MULTILINE), said
    assert "pip install 'recollect[digits]'" in said
    assert not (bare.work / "cache").exists()
    refused = bare.python(EVERY_MODULE).split()
    assert refused == [f"recollect.adapters.{name}" for name in ("river", "rows", "scikit")]


def test_the_readmes_python_runs_with_the_extra_that_it_names(environment: Get) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    parts = [block.text for block in blocks_of(text) if block.runs]
    assert parts
    assert 'pip install ".[digits]"' in text
    environment("digits").python("\n".join(parts))
