"""Links lead somewhere, read in the repository; the strict build sees to the site."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from tests.docs.pages import FENCE, NAMES, ROOT, broken_links


@pytest.mark.parametrize("name", NAMES)
def test_links_and_anchors_lead_somewhere(name: str) -> None:
    assert broken_links(ROOT / name) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "there.md").write_text("# There it's\n\n```text\n# not here\n```\n", "utf-8")
    page.write_text(
        "# Page\n[a](there.md) [b](there.md#there-its) [c](https://nowhere) [d](#page)\n"
        "[e](gone.md) [f](there.md#gone) [g](there.md#not-here) [h](#gone) [i](../gone.py)",
        "utf-8",
    )
    lost = ["gone.md", "there.md#gone", "there.md#not-here", "#gone", "../gone.py"]
    assert broken_links(page) == lost


@pytest.mark.parametrize("name", NAMES)
def test_lists_are_lists_in_the_site_too(name: str) -> None:
    """The site wants an empty line before a list, and four spaces before what is inside an item."""
    lines = FENCE.sub("", (ROOT / name).read_text("utf-8")).splitlines()
    for before, line in pairwise(lines):
        if re.match(r"([-*]|\d+\.) ", line):
            assert not before or re.match(r"([-*]|\d+\.|\s) ?", before), f"{name}: {line}"
        assert not re.match(r" {1,3}([-*]|\d+\.) ", line), f"{name}: {line}"
