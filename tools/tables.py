"""Rewrite the tables of the documentation from the runs in results/: `make tables`.

On a page, the text between two comments is generated:

    <!-- table: accuracy seq-mnist -->

    | method | ...

    <!-- end -->

and within a line <!-- value: mean seq-mnist packnet - task -->...<!-- end -->. The kinds of both
are in `tools.table_kinds` and `tools.single_pass_tables`. A test compares the pages with the
output of this command.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tools.evidence import Evidence
from tools.single_pass_tables import TABLES as SINGLE_PASS
from tools.table_kinds import TABLES, VALUES

from recollect.errors import InputError

__all__ = ["filled", "pages"]

ROOT = Path(__file__).parents[1]
MARKED = re.compile(r"<!-- (table|value): ([^\n]*?) -->(.*?)<!-- end -->", re.DOTALL)


def pages() -> list[Path]:
    """Return the pages with generated text."""
    found = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])
    return [page for page in found if MARKED.search(page.read_text("utf-8"))]


def filled(text: str, evidence: Evidence) -> str:
    """Return a page's text with all tables and values regenerated."""

    def made(found: re.Match[str]) -> str:
        kind, (name, *words) = found[1], found[2].split()
        known = {**TABLES, **SINGLE_PASS} if kind == "table" else VALUES
        if name not in known:
            raise InputError(f"there is no {kind} {name!r}: give one of {', '.join(known)}")
        body = known[name](evidence, words)
        body = f"\n\n{body}\n\n" if kind == "table" else body
        return f"<!-- {kind}: {found[2]} -->{body}<!-- end -->"

    return MARKED.sub(made, text)


def main() -> int:
    """Rewrite the pages that differ, and print their names."""
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
