"""How often tests that kill processes or try random inputs do so: a tenth, or all of it.

`make test` does a tenth, which finds what is plainly broken. `make torture` does all.
"""

from __future__ import annotations

import os

__all__ = ["FULL", "times"]

FULL = os.environ.get("RECOLLECT_TORTURE") == "1"


def times(full: int) -> int:
    """So many, or a tenth in the usual suite."""
    return full if FULL else max(1, full // 10)
