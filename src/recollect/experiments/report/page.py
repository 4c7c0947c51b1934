"""The page: markup, style, script and data put together in one file."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from recollect.files import write_text

__all__ = ["packed", "render", "write"]

SCRIPTS = (
    "dom.js", "data.js", "state.js", "card.js", "tables.js", "plot.js", "figures.js", "compare.js",
    "recorded.js", "detail.js", "main.js",
)  # fmt: skip


def write(data: Mapping[str, Any], path: Path | str) -> None:
    """Write the page; the file appears whole or not at all."""
    write_text(path, render(data))


def render(data: Mapping[str, Any]) -> str:
    """The page as one text that needs nothing else, and that may not fetch anything."""
    style = _part("style.css")
    script = "\n".join(['"use strict";', "(() => {", *map(_part, SCRIPTS), "})();"])
    policy = (
        "default-src 'none'; img-src data:; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    )
    parts = {"POLICY": policy, "STYLE": style, "SCRIPT": script, "DATA": _inert(data)}
    pieces = _part("page.html").split("@@")
    return "".join(parts.get(piece, piece) for piece in pieces)


def packed(data: object) -> str:
    """Data that say the same things many times, as a text of a tenth of the size."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _part(name: str) -> str:
    return resources.files(__package__).joinpath("page", name).read_text("utf-8")


def _inert(data: Mapping[str, Any]) -> str:
    """JSON in which nothing can end a script or begin a comment or a tag."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _digest(text: str) -> str:
    """The name under which a policy lets exactly this text run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
