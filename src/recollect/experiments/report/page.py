"""Assemble the report page: markup, style, scripts and data in one file."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from importlib import resources
from typing import Any

SCRIPTS = (
    "dom.js", "data.js", "state.js", "card.js", "tables.js", "plot.js", "figures.js", "compare.js",
    "recorded.js", "detail.js", "main.js",
)  # fmt: skip


def render(data: Mapping[str, Any]) -> str:
    """Return the self-contained page; its content security policy forbids loading anything."""
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
    """Compress data to a base64 string; repetitive data shrink to about a tenth."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _part(name: str) -> str:
    return resources.files(__package__).joinpath("page", name).read_text("utf-8")


def _inert(data: Mapping[str, Any]) -> str:
    """Serialise to JSON that cannot end the script element or start a comment or tag."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _digest(text: str) -> str:
    """Return the content security policy hash of a script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
