"""All Python in the documentation runs, and prints what the pages say it prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.docs.pages import NAMES, NOT_RUN, blocks

# Pages whose commands are run as well, in order with their Python.
WHOLE = ("docs/index.md", "docs/tutorials/engineer.md", "docs/tutorials/researcher.md")

# How many blocks of a page are not run; each begins with "# Not run" and says why.
LEFT_OUT: dict[str, int] = {}

# What pages print, besides what they say in blocks of text: the groups are accuracies, and each
# must be above the number.
PRINTED: dict[str, list[tuple[str, float]]] = {
    "docs/learner.md": [
        (r"^up 3000 examples, accuracy (\d+\.\d+) %", 90),
        (r"\['(?:up', 'down|down', 'up)', 'far away'\]", 0),
        (r"unknown label 'sideways'", 0),
        (r"^400 400\n1000 1000\n", 0),  # the stream goes on where it stopped
        (r"not finite \(NaN or infinity\)", 0),
    ],
    "docs/stream.md": [
        (r"^60 examples, accuracy (\d+\.\d+) %", 0),
        (r"^20 examples so far\n40 examples so far\n60 examples so far$", 0),
    ],
    "docs/adapters.md": [
        (r"^None: (\d+\.\d) % right\nrange\(0, 10\): (\d+\.\d) % right", 85),
        (r"^five folds: (\d\.\d+)\nafter more rows: (\d\.\d+)", 0.9),
        (r"^Accuracy: (\d+\.\d+)%", 75),
        (r"^\[(?:True|False), (?:True|False), (?:True|False)\]", 0),
        (r"^200 .* 2000 examples, accuracy (\d+\.\d+) %", 70),
    ],
}

WITH_PYTHON = [name for name in NAMES if any(block.runs for block in blocks(name))]
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def test_the_usual_pages_have_python() -> None:
    assert {"README.md", "docs/learner.md", *PRINTED, *WHOLE} <= {*WITH_PYTHON}


def test_blocks_that_are_not_run_are_few_and_say_why() -> None:
    found = {}
    for name in NAMES:
        left = [b.text for b in blocks(name) if b.language == "python" and not b.runs]
        if left:
            found[name] = len(left)
        for text in left:
            assert len(text.partition("\n")[0]) > len(f"{NOT_RUN}: ") + 10, f"{name}: no reason"
    assert found == LEFT_OUT


@pytest.mark.parametrize("name", WITH_PYTHON)
def test_a_pages_python_runs(name: str, run_page: Callable[..., Any], page_files: None) -> None:
    ran = run_page(name, name in WHOLE)
    assert ran.status == 0, ran.output
    for pattern, least in PRINTED.get(name, []):
        found = re.search(pattern, ran.output, re.MULTILINE)
        assert found, f"nothing like {pattern} in {ran.output}"
        assert all(float(share) > least for share in found.groups()), found[0]
    check_what_is_said(name, ran.printed)


def test_the_learner_starts_in_ten_lines() -> None:
    first = next(block for block in blocks("docs/learner.md") if block.runs)
    assert len([line for line in first.text.splitlines() if line.strip()]) <= 10


def test_own_data_become_a_comparison_in_less_than_twenty_lines() -> None:
    first = next(block for block in blocks("docs/tutorials/own-data.md") if block.runs)
    assert len([line for line in first.text.splitlines() if line.strip()]) < 20


def check_what_is_said(name: str, printed: dict[int, str]) -> None:
    """A block of text right after one that is run is what that one prints.

    Accuracies depend on the processor's rounding: numbers with decimals may differ by 3.
    """
    page = blocks(name)
    for number, said in enumerate(page[1:]):
        if said.language != "text" or not printed.get(number):
            continue
        got, told = printed[number].rstrip(), said.text.rstrip()
        place = f"{name}, line {said.line}"
        assert NUMBER.sub("#", got) == NUMBER.sub("#", told), f"{place}: it prints\n{got}"
        for ours, theirs in zip(NUMBER.findall(got), NUMBER.findall(told), strict=True):
            near = 3.0 if "." in ours else 0.0
            assert abs(float(ours) - float(theirs)) <= near, f"{place}: it prints\n{got}"


def test_a_wrong_statement_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "```python\nprint(1)\n```\n\n```text\n{}\n```\n"
    from tests.docs import pages

    for said, right in [("seed 1, 85.0", True), ("seed 2, 85.0", False), ("seed 1, 80.0", False),
                        ("run 1, 85.0", False)]:  # fmt: skip
        made = pages.blocks_of(text.format(said))
        monkeypatch.setitem(check_what_is_said.__globals__, "blocks", lambda _, made=made: made)
        if right:
            check_what_is_said("page", {0: "seed 1, 86.1\n"})
        else:
            with pytest.raises(AssertionError):
                check_what_is_said("page", {0: "seed 1, 86.1\n"})
