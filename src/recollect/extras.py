"""Libraries that come with an extra, or an error that names it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from recollect.errors import MissingExtraError

__all__ = ["needs"]


@contextmanager
def needs(library: str, *, extra: str, what: str) -> Iterator[None]:
    """Imports within it that fail for want of a library say how to get it.

    >>> with needs("no_such_library", extra="dreams", what="Dreaming"):
    ...     import no_such_library
    Traceback (most recent call last):
        ...
    recollect.errors.MissingExtraError: Dreaming needs no_such_library, which is not \
installed: run pip install "recollect[dreams]"
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != library:
            raise
        raise MissingExtraError(
            f'{what} needs {library}, which is not installed: run pip install "recollect[{extra}]"'
        ) from error
