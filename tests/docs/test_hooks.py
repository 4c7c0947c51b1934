"""What the site makes of pages: links to files, equations, examples of docstrings."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
from tests.docs.pages import ROOT

pytest.importorskip("mkdocs", reason="the site needs the extra recollect[docs]")

from tools import collect, site_doctests, site_math, site_pages, table_parts


@pytest.mark.parametrize(
    "module", [collect, site_doctests, site_math, table_parts], ids=lambda module: module.__name__
)
def test_their_examples_are_right(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("path", ["docs/learner.md", "CONTRIBUTING.md", "src/recollect/errors.py"])
def test_a_page_is_found_again(path: str) -> None:
    assert site_pages.home(site_pages.place(path)) == path


def test_links_to_files_are_found_outside_of_code() -> None:
    text = (
        "[a](../src/recollect/errors.py) [b](learner.md) [c](https://a.b/c) [d](../gone.py)\n"
        "```text\n[e](../LICENSE)\n```\n[f](../LICENSE#part)"
    )
    assert site_pages.linked(text, "docs/page.md", ROOT) == ["src/recollect/errors.py", "LICENSE"]


def test_nothing_outside_of_the_repository_is_shown(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    assert site_pages.target("../../secret.txt", "docs/page.md", inside) is None


def test_code_with_a_fence_of_its_own_stays_whole() -> None:
    text = "a\n````python\n```\nb\n```\n````\nc"
    assert site_pages.outside_code(text, str.upper) == text.replace("a", "A").replace("\nc", "\nC")


def test_an_equation_that_is_not_understood_fails() -> None:
    with pytest.raises(ValueError, match="unsupported command"):
        site_math.mathml(r"\nosuchcommand x")
