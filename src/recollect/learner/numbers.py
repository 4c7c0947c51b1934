"""Numbers as arguments: whole numbers, numbers of NumPy, and sizes with a unit."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from recollect.errors import InputError

UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def bytes_in(size: str) -> int:
    """Convert a size with a unit to bytes.

    >>> bytes_in("64 MB"), bytes_in("1.5 GiB"), bytes_in("200kb")
    (64000000, 1610612736, 200000)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*", size)
    if not found or found[2].lower() not in UNITS:
        raise InputError(
            f"memory must be a number of examples or a size such as '64 MB', not {size!r}"
        )
    return int(float(found[1]) * UNITS[found[2].lower()])


def is_whole(number: object) -> bool:
    """Whether a value is an int or an integer of NumPy, and not a bool."""
    return isinstance(number, int | np.integer) and not isinstance(number, bool)


def plain(number: Any) -> Any:
    """Convert a number of NumPy to Python's, which can be saved; return other values unchanged."""
    return number.item() if isinstance(number, np.integer | np.floating) else number
