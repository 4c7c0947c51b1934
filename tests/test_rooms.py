"""Rooms import in one direction: each only what docs/architecture.md says that it may."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "recollect"
EVERYWHERE = {
    "errors",
    "extras",
    "files",
    "__version__",
    "",
}  # the last is the package, by its name
LIBRARIES = {"torch", "numpy", "safetensors"}
LATE = {"streams": {"sklearn", "PIL"}, "feeds": {"pyarrow", "PIL"}}  # only when asked for


def allowed() -> dict[str, set[str]]:
    """What each room may import, as the table of rooms says."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", page, re.MULTILINE)
    rows = [row for row in rows if (PACKAGE / row[0]).is_dir()]  # there are other tables
    hidden = {room for room, inside, _ in rows if "nothing imports it" in inside}
    rooms = [room for room, _, _ in rows]
    found = {}
    for place, (room, _, may) in enumerate(rows):
        named = set(re.findall(r"`(\w+)`", may))
        if "all above" in may:
            named |= set(rooms[:place])
        if "and below" in may:
            named |= {each for last in named for each in rooms[: rooms.index(last)]}
        found[room] = named - hidden
    return found


ALLOWED = allowed()


def imports(text: str) -> Iterator[tuple[str, bool]]:
    """Every module that a file imports, and whether at its top."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((each.name, node in tree.body) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports have full names"
            whole = node.module == "recollect"
            names = [f"recollect.{each.name}" for each in node.names] if whole else [node.module]
            yield from ((name or "", node in tree.body) for name in names)


def faults(text: str, room: str) -> list[str]:
    """What a file of a room imports and may not."""
    ours, late = ALLOWED[room] | EVERYWHERE | {room}, LATE.get(room, set())
    below = list(ALLOWED).index(room) <= list(ALLOWED).index("train")
    found = []
    for name, at_the_top in imports(text):
        first, _, rest = name.partition(".")
        strange = below and first not in {*sys.stdlib_module_names, *LIBRARIES, *late}
        if first == "recollect":
            strange = rest.split(".")[0] not in ours
        if strange or (first in late and at_the_top):
            found.append(name)
    return found


def test_the_table_has_every_room() -> None:
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert set(ALLOWED) == rooms
    assert ALLOWED["memory"] == {"core"}
    assert ALLOWED["learner"] == {
        "core", "nets", "memory", "methods", "streams", "feeds", "train",
    }  # fmt: skip
    assert ALLOWED["live"] == {*ALLOWED["learner"], "learner"}
    assert "testing" not in ALLOWED["cli"]


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_what_it_may(room: str) -> None:
    for path in (PACKAGE / room).rglob("*.py"):
        assert not faults(path.read_text("utf-8"), room), path.relative_to(PACKAGE)


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("core", "from recollect.memory import Memory"),
        ("core", "def f():\n    from recollect import memory"),
        ("methods", "import recollect.train.fleet"),
        ("live", "from recollect.cli.screen import notice"),
        ("cli", "from recollect.testing import check_method"),
        ("streams", "import PIL"),
        ("train", "def f():\n    import rich"),
    ],
)
def test_what_a_room_may_not_import_is_found(room: str, line: str) -> None:
    assert faults(line, room)
