"""Import optional dependencies, with an error that names the extra to install."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from recollect.errors import MissingExtraError


@contextmanager
def needs(library: str, *, extra: str, what: str) -> Iterator[None]:
    """Context for importing an optional dependency; a failed import says how to install it.

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
