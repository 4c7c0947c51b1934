"""Griffe extension: the examples of docstrings become blocks of code in the reference."""

from __future__ import annotations

import re
from typing import Any

from griffe import Docstring, Extension, Object

# Lines from a prompt to the next empty line.
EXAMPLE = re.compile(r"^>>> .*?(?=\n[ \t]*\n|\Z)", re.MULTILINE | re.DOTALL)


class FencedExamples(Extension):
    """Puts a fence around every example, as Markdown would take `>>>` for quotations."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Fence the examples of an object's docstring."""
        if isinstance(obj.docstring, Docstring):
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The text with fences around its examples, without remarks for doctest.

    >>> fenced("Add.\\n\\n>>> 1 + 1  # doctest: +SKIP\\n2")
    'Add.\\n\\n```pycon\\n>>> 1 + 1\\n2\\n```'
    """
    text = EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
    return re.sub(r" *# doctest: .*", "", text)
