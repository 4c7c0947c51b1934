"""The pages of the documentation, and what is in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]

NOT_RUN = "# Not run"  # how a block begins that says why it is not run
FENCE = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A block of code on a page: its language, its text, and the line where the text begins."""

    language: str
    text: str
    line: int

    @property
    def runs(self) -> bool:
        """Whether it is Python that is run."""
        return self.language == "python" and not self.text.startswith(NOT_RUN)

    @property
    def commands(self) -> list[str]:
        """The lines of shell, without remarks; a line may go on after a backslash."""
        whole = self.text.replace("\\\n", " ") if self.language == "sh" else ""
        lines = (re.sub(r"(^|\s+)#.*$", "", line).strip() for line in whole.splitlines())
        return [line for line in lines if line]


def blocks_of(text: str) -> list[Block]:
    """All blocks of a page in order.

    >>> blocks_of("Say\\n```python\\nprint(1)\\n```\\n")
    [Block(language='python', text='print(1)\\n', line=3)]
    """
    return [
        Block(found[2].split(" ")[0], found[3], text.count("\n", 0, found.start(3)) + 1)
        for found in FENCE.finditer(text)
    ]


def blocks(name: str) -> list[Block]:
    """The blocks of the page of that name, as they are at this moment."""
    return blocks_of((ROOT / name).read_text("utf-8"))


def anchors(text: str) -> set[str]:
    """What the headings of a page are called in links.

    >>> sorted(anchors("# A & b's\\n## `run`\\n"))
    ['a--bs', 'run']
    """
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


def broken_links(page: Path) -> list[str]:
    """The relative links of a page that lead to no file, or to no heading of it."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", page.read_text("utf-8"))):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        there = page.parent / path if path else page
        known = (
            anchors(there.read_text("utf-8")) if there.suffix == ".md" and there.exists() else ()
        )
        # The reference is made of docstrings: its headings are there only when the site is built.
        if not there.exists() or (anchor and anchor not in known and there.parent.name != "api"):
            broken.append(link)
    return broken
