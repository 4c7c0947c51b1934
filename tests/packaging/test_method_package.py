"""Adding a method as the page says: written, checked, built, installed, and run by name."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import blocks_of

from recollect.core import losses
from recollect.core.model import Model
from recollect.methods import Method, Needs, Setup, Spec, Step, Task

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "method_package"
PAGE = (ROOT / "docs" / "extend" / "method.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return [block.text for block in blocks_of(PAGE) if block.language == language]


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


# One test, not several: each worker of a parallel run would make the environment anew.
@pytest.mark.skipif(os.name == "nt", reason="environments are made of links")
def test_the_package_of_the_page_works_where_it_is_installed(
    environment: Callable[[str], Any], build: Callable[..., Path]
) -> None:
    others = ("anchored", "feature_er")  # files that are not in the package
    _, *rest = (b for b in blocks("python") if not any(each in b for each in others))
    newcomer = environment("digits")
    newcomer.install(str(build(EXAMPLE)))

    said = newcomer.run(
        "recollect", "run", "seq-digits", "weighted-er", "--buffer", "50", "--seeds", "2",
        "--lr", "0.1", "--weight", "2",
    )  # fmt: skip
    assert "seq-digits · weighted-er · 2 seeds" in said
    found = re.search(r"Class-IL\s+(\d+\.\d+)", said)
    assert found
    assert float(found[1]) > 50, "a fifth is what the last task alone would give"

    own = (EXAMPLE / "test_weighted.py").read_text("utf-8")
    tests = [f"{name}()" for name in re.findall(r"^def (test_\w+)", own, re.MULTILINE)]
    assert len(tests) == 2
    named = "from recollect.methods import others\nprint(others().packages)\n"
    listed = f"{named}from recollect.cli.main import main\nmain(['methods'])\n"
    said = newcomer.python("\n".join([own, *tests, *rest, listed]))
    assert said.count("seq-digits weighted-er buffer 200") == 4
    assert "{'weighted-er': 'recollect-weighted-er 0.1.0'}" in said
    for name in (" weighted-er ", " Weighted ER "):
        assert name in said


def test_the_example_is_the_package_of_the_page() -> None:
    assert (EXAMPLE / "weighted.py").read_text("utf-8").strip() == blocks("python")[0].strip()
    assert (EXAMPLE / "pyproject.toml").read_text("utf-8").strip() == blocks("toml")[0].strip()


def test_the_page_has_every_declaration_and_hook() -> None:
    declared = set(Method.__annotations__) & public(Method) | {"name", "title"}
    hooks = {name for name in public(Method) - declared if inspect.isfunction(vars(Method)[name])}
    for name in declared:
        assert re.search(rf"^\|.*`{name}`.*\|", PAGE, re.MULTILINE), name
    for name in hooks:
        assert re.search(rf"^\|.*`{name}\(", PAGE, re.MULTILINE), name


def test_the_page_has_all_that_a_method_may_use() -> None:
    step = public(Step) | set(re.findall(r"self\.([a-z]\w*) = ", inspect.getsource(Step)))
    for name in step - {"outcome"}:
        assert f"`step.{name}" in PAGE, name
    task = {field.name for field in fields(Task)} | public(Task)
    for name in task - {"requests"}:
        assert f"`task.{name}" in PAGE, name
    for name in public(Model) - {"runs", "feature_size", "ones"}:
        assert f"`model.{name}" in PAGE, name
    declared = [field.name for kind in (Needs, Setup) for field in fields(kind)]
    known = [name for name in losses.__all__ if name[0].islower()]
    for name in [*declared, *known]:
        assert re.search(rf"^\|.*`{name}[(`]", PAGE, re.MULTILINE), name
    for field in fields(Spec):
        assert f"`{field.name}`" in PAGE, field.name
