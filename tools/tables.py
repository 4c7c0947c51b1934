"""Rewrites the tables of the documentation from the runs in results/: `make tables`.

On a page, what stands between two remarks is made of the runs:

    <!-- table: accuracy seq-mnist -->

    | method | ...

    <!-- end -->

and within a line <!-- value: mean seq-mnist packnet - task -->...<!-- end -->. The kinds of both
are in `tools.table_kinds`. A test compares the pages with what this command would write.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tools.evidence import Evidence
from tools.table_kinds import TABLES, VALUES

from recollect.errors import InputError

__all__ = ["filled", "pages"]

ROOT = Path(__file__).parents[1]
MARKED = re.compile(r"<!-- (table|value): ([^\n]*?) -->(.*?)<!-- end -->", re.DOTALL)


def pages() -> list[Path]:
    """The pages that have something to fill in."""
    found = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
    return [page for page in found if MARKED.search(page.read_text("utf-8"))]


def filled(text: str, evidence: Evidence) -> str:
    """A page's text with every table and value made anew."""

    def made(found: re.Match[str]) -> str:
        kind, (name, *words) = found[1], found[2].split()
        known = TABLES if kind == "table" else VALUES
        if name not in known:
            raise InputError(f"there is no {kind} {name!r}: give one of {', '.join(known)}")
        body = known[name](evidence, words)
        body = f"\n\n{body}\n\n" if kind == "table" else body
        return f"<!-- {kind}: {found[2]} -->{body}<!-- end -->"

    return MARKED.sub(made, text)


def main() -> int:
    """Rewrite the pages that differ, and name them."""
    evidence = Evidence()
    for page in pages():
        text = page.read_text("utf-8")
        new = filled(text, evidence)
        if new != text:
            page.write_text(new, "utf-8")
            print(page.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
