"""The pages of the methods: every method has one, and what can be checked in them is right."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from tests.docs.pages import blocks_of

from recollect.experiments.paper import published, verdict
from recollect.methods import METHODS, REQUIREMENTS, Method, hyperparameters, requirements, symbol
from recollect.methods import method as method_named
from recollect.streams import BENCHMARKS

PAGES = Path(__file__).parents[1] / "docs" / "methods"
INDEX = PAGES / "README.md"

# Methods that share a page with another.
SHARED = {
    "agem-r": "agem",
    "oewc": "ewc",
    "er-ring": "er-memories",
    "er-kmeans": "er-memories",
    "er-mof": "er-memories",
    "er-hybrid": "er-memories",
}

# Methods whose page may still be missing; a page that is there is checked like any other.
LATER: set[str] = set()

SETTINGS = {"Class-IL": "class", "Task-IL": "task", "Domain-IL": "domain", "General CL": "general"}
RESULTS = ["method", "benchmark", "setting", "buffer", "seeds", "ours", "paper", ""]
ONE_EPOCH = ", one epoch"


def page_of(name: str) -> Path:
    return PAGES / f"{SHARED.get(name, name)}.md"


def written() -> list[str]:
    """The methods whose page is there, or must be."""
    return [name for name in METHODS if name not in LATER or page_of(name).exists()]


def files() -> list[Path]:
    return sorted(PAGES.glob("*.md"))


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every row of every table."""
    for line in text.splitlines():
        if line.startswith("|") and line.endswith("|"):
            yield [cell.strip() for cell in line[1:-1].split("|")]


def commands(text: str) -> list[list[str]]:
    """The words of every command `recollect` in the blocks of shell."""
    lines = (line for block in blocks_of(text) for line in block.commands)
    return [shlex.split(line) for line in lines if line.startswith("recollect ")]


def trained(command: list[str]) -> list[str]:
    """The methods that a command trains."""
    if command[1] == "run":
        return [command[3]]
    after = command[command.index("--methods") + 1 :]
    options = [place for place, word in enumerate(after) if word.startswith("--")]
    return after[: options[0]] if options else after


@pytest.mark.parametrize("name", written())
def test_every_method_has_a_page_that_names_its_command(name: str) -> None:
    assert page_of(name).is_file(), f"no page for {name}"
    found = [c for c in commands(page_of(name).read_text("utf-8")) if name in trained(c)]
    assert found, f"no command of {name} in {page_of(name).name}"


@pytest.mark.parametrize("name", written())
def test_a_page_has_the_hyperparameters_with_their_defaults(name: str) -> None:
    kind = METHODS[name]
    text = page_of(name).read_text("utf-8")
    listed = {cells[0]: cells[1] for cells in rows(text) if len(cells) == 3}
    for own in hyperparameters(kind):
        default = str(kind.__dataclass_fields__[own].default)
        assert listed.get(f"`{symbol(own)}`") == default, f"{own} = {default}"
    assert "`lr`" in text


@pytest.mark.parametrize("name", written())
def test_a_page_links_to_the_code_of_its_method(name: str) -> None:
    source = f"{METHODS[name].__module__.removeprefix('recollect.').replace('.', '/')}.py"
    assert f"(../../src/recollect/{source})" in page_of(name).read_text("utf-8")


@pytest.mark.parametrize("name", written())
def test_the_index_says_what_a_method_needs(name: str) -> None:
    kind: type[Method] = METHODS[name]
    found = [cells for cells in rows(INDEX.read_text("utf-8")) if cells[0] == f"`{name}`"]
    assert len(found) == 1, f"{name} has {len(found)} rows"
    _, title, _, boundaries, memory, page = found[0]
    assert title == kind.title
    assert boundaries == ("yes" if kind.needs.boundaries else "no")
    assert memory.split(";")[0] == (", ".join(kind.replay.names) if kind.replay else "-")
    assert page == f"[{page_of(name).name}]({page_of(name).name})"


def test_the_table_of_requirements_is_what_methods_declare() -> None:
    listed = {cells[0]: cells[1:] for cells in rows(INDEX.read_text("utf-8")) if len(cells) == 5}
    for kind in METHODS.values():
        marks = ["✓" if met else "-" for met in requirements(kind).values()]
        assert listed[kind.title] == marks, kind.title
    assert [*REQUIREMENTS] == listed["method"]


@pytest.mark.parametrize("page", files(), ids=lambda page: page.stem)
def test_commands_train_what_there_is(page: Path) -> None:
    for command in commands(page.read_text("utf-8")):
        assert command[1] in ("run", "reproduce")
        assert command[2] in BENCHMARKS
        assert set(trained(command)) <= set(METHODS)


@pytest.mark.parametrize("page", files(), ids=lambda page: page.stem)
def test_results_have_the_papers_figures_and_the_right_verdict(page: Path) -> None:
    for cells in rows(page.read_text("utf-8")):
        if len(cells) != len(RESULTS) or cells == RESULTS or set(cells) == {"---"}:
            continue
        title, benchmark, setting, buffer, seeds, ours, theirs, mark = cells
        paper = published(
            benchmark.removesuffix(ONE_EPOCH),
            SETTINGS[setting],
            method_named(title).name,
            None if buffer == "-" else int(buffer),
            "accuracy-single-epoch" if benchmark.endswith(ONE_EPOCH) else "accuracy",
        )
        if paper is None:
            assert (theirs, mark) == ("-", ""), cells
            continue
        assert theirs == str(paper), cells
        if ours == "not measured":
            assert (seeds, mark) == ("-", ""), cells
            continue
        # One seed has no deviation; some of several may have diverged.
        mean, std = map(float, f"{ours} ±0".split(" ±")[:2])
        # What is printed is rounded; the verdict is that of the numbers behind it.
        behind = [
            verdict(mean + a, max(std + b, 0), int(seeds.split(",")[0]), paper)
            for a, b in product((-0.005, 0, 0.005), repeat=2)
        ]
        marks = {found.mark if found else "" for found in behind}
        if "," in seeds:  # runs that diverged or lie far below make a verdict weak
            marks = {f"({each.strip('()')})" for each in marks}
        assert mark in marks, cells
