"""Messages besides the result."""

from __future__ import annotations

import sys

__all__ = ["notice"]


def notice(text: str) -> None:
    """Print a line on standard error."""
    print(f"recollect: {text}", file=sys.stderr)
