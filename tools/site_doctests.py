"""Griffe extension that renders docstring examples as code blocks in the reference."""

from __future__ import annotations

import re
from typing import Any

from griffe import Docstring, Extension, Object

# Lines from a prompt to the next empty line.
EXAMPLE = re.compile(r"^>>> .*?(?=\n[ \t]*\n|\Z)", re.MULTILINE | re.DOTALL)


class FencedExamples(Extension):
    """Fence every example, as Markdown would render `>>>` as a quotation."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Fence the examples of an object's docstring."""
        if isinstance(obj.docstring, Docstring):
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """Put fences around the examples of a text, and remove doctest directives.

    >>> fenced("Add.\\n\\n>>> 1 + 1  # doctest: +SKIP\\n2")
    'Add.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```'
    """
    text = EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
    return re.sub(r" *# doctest: .*", "", text)
