"""The site: it builds strictly, holds every page, and needs nothing from elsewhere to be read."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.docs.pages import NAMES, ROOT

pytest.importorskip("mkdocs", reason="the site needs the extra recollect[docs]")

REFERENCE = ROOT / "docs" / "api"
MODULES = {
    re.findall(r"^# (\S+)", text)[0]: page.with_suffix(".html").name
    for page in REFERENCE.glob("*.md")
    if "::: " in (text := page.read_text("utf-8"))
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built by the command of `make docs`, in a process that cannot import torch."""
    folder = tmp_path_factory.mktemp("site")
    without = tmp_path_factory.mktemp("without")
    (without / "torch.py").write_text("raise ImportError('the site is built without torch')\n")
    ended = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(without), "NO_MKDOCS_2_WARNING": "1"},
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


class Fetched(HTMLParser):
    """Notes what a browser fetches to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source", "video"):
            self.addresses.append(given.get("src") or "")
        if tag == "link" and given.get("rel") in ("stylesheet", "preconnect", "icon", "preload"):
            self.addresses.append(given.get("href") or "")


def test_every_page_is_there(site: Path) -> None:
    assert (site / "index.html").is_file()
    for name in NAMES:
        place = re.sub(r"README\.md$", "index.md", name.removeprefix("docs/"))
        if name.startswith("docs/"):
            assert (site / place).with_suffix(".html").is_file(), name


def test_the_menu_names_every_page_once() -> None:
    pages = re.findall(
        r"^ +- (?:[^:\n]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE
    )
    assert len(pages) > 50
    assert sorted({*pages}) == sorted(pages)


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        reader = Fetched()
        reader.feed(page.read_text("utf-8"))
        for address in filter(None, reader.addresses):
            assert "//" not in address, f"{page.relative_to(site)} fetches {address}"
            # The page for what is not found is shown at any address, so it starts at the root.
            start = site if address.startswith("/") else page.parent
            there = start / address.partition("?")[0].lstrip("/")
            assert there.is_file(), f"{page.relative_to(site)}: there is no {address}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?https?:", sheet.read_text("utf-8")), sheet.name


def test_equations_are_mathml(site: Path) -> None:
    text = (site / "methods" / "derpp.html").read_text("utf-8")
    assert text.count('display="block"') == 1
    assert "arithmatex" not in text
    assert "$$" not in text


def test_links_to_code_lead_to_pages_with_that_code(site: Path) -> None:
    text = (site / "methods" / "derpp.html").read_text("utf-8")
    (link,) = re.findall(r'href="([^"]*derpp\.py[^"]*)"', text)
    code = (site / "methods" / link).read_text("utf-8")
    assert "Dark Experience Replay with labels" in code
    assert 'class="highlight"' in code


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_has_every_public_name(site: Path, module: str) -> None:
    text = (site / "api" / MODULES[module]).read_text("utf-8")
    found = {*re.findall(r'id="(recollect[\w.]*)"', text)}
    public = importlib.import_module(module)
    for name in public.__all__:
        thing = inspect.unwrap(getattr(public, name))
        if inspect.isclass(thing) or inspect.isroutine(thing):
            # Where a file has the name of a function in it, the reference has it by its full name.
            assert found & {f"{module}.{name}", f"{thing.__module__}.{name}"}, name


def test_examples_of_docstrings_are_code(site: Path) -> None:
    text = (site / "api" / "recollect.html").read_text("utf-8")
    assert '<span class="gp">&gt;&gt;&gt; </span>' in text
    assert "<blockquote>" not in text
