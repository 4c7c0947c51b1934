"""Say once that steps are taken in a slower way than was planned."""

from __future__ import annotations

import warnings

from recollect.errors import SlowerWarning

__all__ = ["reason", "say_slower"]

LONGEST = 160

_SAID: set[str] = set()


def say_slower(text: str) -> None:
    """Give a `SlowerWarning` with this text, once in this process."""
    if text not in _SAID:
        _SAID.add(text)
        # The caller is inside the library, so the line that is named says nothing to a user.
        warnings.warn(text, SlowerWarning, stacklevel=2)


def reason(error: BaseException) -> str:
    """The kind of an error and the first line of its message, not too long.

    >>> reason(RuntimeError("no such kernel\\nand much more"))
    'RuntimeError: no such kernel'
    >>> reason(AssertionError())
    'AssertionError'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
