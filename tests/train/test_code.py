"""The fingerprint of code: an equation counts, a docstring does not, other methods do not."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

import recollect
from recollect import ER, MLP, SGD, DERpp, Replay, Step
from recollect.streams import TaskStream
from recollect.train import code
from recollect.train.code import code_fingerprint

ROOT = Path(recollect.__file__).parent
Edited = Callable[[str, Callable[[str], str]], str]
CACHED = ("_fingerprint", "_source", "_defining", "_is_installed")


@pytest.fixture(autouse=True)
def _read_anew() -> Iterator[None]:
    forget()
    yield
    forget()


def forget() -> None:
    for name in CACHED:
        getattr(code, name).cache_clear()


@pytest.fixture
def edited(monkeypatch: pytest.MonkeyPatch) -> Edited:
    """The fingerprint of DER++ if a file of recollect were edited in this way."""

    def found(name: str, edit: Callable[[str], str]) -> str:
        read = Path.read_bytes

        def changed(path: Path) -> bytes:
            if path != ROOT / name:
                return read(path)
            text = read(path).decode()
            assert edit(text) != text
            return edit(text).encode()

        forget()
        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", changed)
            fingerprint = code_fingerprint(DERpp, TaskStream, MLP)
        forget()
        return fingerprint

    return found


LAYOUT: dict[str, Callable[[str], str]] = {
    "docstring": lambda text: text.replace('"""', '"""Other words. ', 1),
    "docstring gone": lambda text: text[text.index('"""', 3) + 3 :],
    "comment": lambda text: "# new\n" + text.replace("\n", "  # why\n", 1),
    "empty lines": lambda text: text.replace("\n\n", "\n\n\n\n"),
    "line ends": lambda text: text.replace("\n", "\r\n"),
    "a string alone": lambda text: text + '\n"""The end."""\n',
}


@pytest.mark.parametrize("edit", LAYOUT)
@pytest.mark.parametrize("name", ["methods/derpp.py", "core/losses.py", "train/fleet.py"])
def test_words_and_layout_do_not_count(name: str, edit: str, edited: Edited) -> None:
    assert edited(name, LAYOUT[edit]) == code_fingerprint(DERpp, TaskStream, MLP)


def more(text: str) -> str:
    return text + "\nMORE = 1\n"


@pytest.mark.parametrize("name", ["methods/derpp.py", "core/losses.py"])
def test_an_equation_counts(name: str, edited: Edited) -> None:
    changed = edited(name, lambda text: " / ".join(text.rsplit(" * ", 1)))
    assert changed != code_fingerprint(DERpp, TaskStream, MLP)


@pytest.mark.parametrize(
    "name",
    ["methods/derpp.py", "methods/base.py", "core/losses.py", "core/random.py",
     "memory/reservoir.py", "streams/tasks.py", "nets/mlp.py", "train/loop.py", "train/fleet.py"],
)  # fmt: skip
def test_what_a_method_is_computed_by_counts(name: str, edited: Edited) -> None:
    assert edited(name, more) != code_fingerprint(DERpp, TaskStream, MLP)


@pytest.mark.parametrize(
    "name",
    ["methods/hal.py", "methods/packages.py", "methods/__init__.py", "nets/resnet.py",
     "streams/mnist360.py", "errors.py", "files.py", "train/checkpoint.py", "train/parallel.py",
     "train/identity.py", "learner/__init__.py", "__init__.py"],
)  # fmt: skip
def test_other_methods_and_what_changes_no_number_do_not_count(name: str, edited: Edited) -> None:
    assert edited(name, more) == code_fingerprint(DERpp, TaskStream, MLP)


def test_every_method_has_its_own() -> None:
    found = {code_fingerprint(kind, TaskStream, MLP) for kind in (SGD, ER, DERpp)}
    assert len(found) == 3
    assert all(len(each) == 12 for each in found)


PACKAGE = {
    "__init__.py": "from .mine import Mine\n",
    "mine.py": "from recollect import ER\nfrom . import sums\nfrom .sums import half\n\n\n"
    "class Mine(ER):\n    name = 'mine'\n",
    "sums.py": "def half(x):\n    return x / 2\n",
    "unused.py": "x = 1\n",
}


def test_a_method_of_another_package_counts_with_what_it_imports_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "their_package"
    folder.mkdir()
    for name, text in PACKAGE.items():
        (folder / name).write_text(text, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    kind = importlib.import_module("their_package").Mine

    def now() -> str:
        forget()
        return code_fingerprint(kind, TaskStream, MLP)

    try:
        first = now()
        assert first != code_fingerprint(ER, TaskStream, MLP)
        (folder / "unused.py").write_text("x = 2\n")
        (folder / "sums.py").write_text('"""Sums."""\n' + PACKAGE["sums.py"])
        assert now() == first
        (folder / "sums.py").write_text(PACKAGE["sums.py"].replace("2", "3"))
        assert now() != first
    finally:
        for name in [name for name in sys.modules if name.startswith("their_package")]:
            del sys.modules[name]


def test_a_class_without_a_file_is_known_by_its_name() -> None:
    kinds = [type(name, (ER,), {"__module__": "nowhere"}) for name in ("A", "A", "B")]
    found = [code_fingerprint(kind) for kind in kinds]
    assert found[0] == found[1] != found[2]


CELL = """
class Base(ER):
    def share(self):
        return 0.5 in {0.5, 0.25}

class Mine(Base):
    replay = Replay(("x", "y"), draws=1)

    def loss(self, step):
        return 2 * super().loss(step)
"""


def in_a_notebook(text: str) -> type:
    """A class of a cell: its module has no file, and Python does not find its source."""
    space: dict[str, Any] = {"__name__": "no_such_module", "ER": ER, "Replay": Replay}
    exec(text, space)
    kind: type = space["Mine"]
    return kind


@pytest.mark.parametrize(
    "edit",
    ["2 *>3 *", "draws=1>draws=2", "0.5 in>0.25 in", "loss(self, step):>loss(self, step=1):"],
)
def test_an_edited_cell_counts(edit: str) -> None:
    old, _, new = edit.partition(">")
    found, same = (code_fingerprint(in_a_notebook(CELL)) for _ in range(2))
    assert found == same
    assert CELL.count(old) == 1
    assert code_fingerprint(in_a_notebook(CELL.replace(old, new))) != found


def test_a_cell_is_the_same_in_every_process() -> None:
    program = (
        "from recollect.core.source import bytecode_of\n"
        "class Mine: exec(\"def loss(self, x): return x in {'a', 'b', 'c', 'd', 'e'}\")\n"
        "print(bytecode_of(Mine))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(found) == 1


HELPED = """
import their_helpers
from recollect import ER

class Mine(ER):
    def loss(self, step):
        return their_helpers.scaled(super().loss(step))
"""


HELPERS = {
    "their_method": HELPED,
    "their_helpers": "import json\nfrom their_parts import sums\ndef scaled(x): return sums.f(x)\n",
    "their_parts/sums": "def f(x): return 2 * x\n",
    "their_others": "def f(x): return 2 * x\n",
}


@pytest.mark.parametrize("notebook", [False, True])
def test_a_module_beside_it_counts_with_what_it_imports(
    notebook: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_parts").mkdir()
    for name, text in HELPERS.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    def now() -> str:
        forget()
        if notebook:
            return code_fingerprint(in_a_notebook(HELPED), TaskStream, MLP)
        return code_fingerprint(importlib.import_module("their_method").Mine, TaskStream, MLP)

    try:
        found = [now()]
        for name in ("their_others", "their_parts/sums", "their_helpers"):
            (tmp_path / f"{name}.py").write_text(f"{HELPERS[name]}more = 1\n")
            found.append(now())
    finally:
        for name in HELPERS:
            sys.modules.pop(name.replace("/", "."), None)
        sys.modules.pop("their_parts", None)
    assert found[0] == found[1]
    assert len(set(found)) == 3


def test_installed_packages_do_not_count() -> None:
    names = ("torch.nn", "numpy", "json", "sys", "pytest", "tests.builders", "recollect")
    assert [name for name in names if not code._is_installed(name)] == ["tests.builders"]


WEIGHT = 1.0


def weighted(weight: float) -> type:
    class Weighted(ER):
        def loss(self, step: Step) -> Tensor:
            return weight * WEIGHT * super().loss(step)

    return Weighted


def test_values_that_a_class_refers_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    one, same, other = (code_fingerprint(weighted(each)) for each in (1.0, 1.0, 0.5))
    assert one == same != other
    assert code_fingerprint(ER, weighted(1.0)) != code_fingerprint(ER, weighted(0.5))
    known = weighted(1.0)
    assert code_fingerprint(known) == one
    monkeypatch.setitem(globals(), "WEIGHT", 2.0)
    assert code_fingerprint(known) != one, "a value of its module"
