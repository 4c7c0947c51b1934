"""A conformance check of one promise, and the error raised if it is broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, final

from recollect.errors import RecollectError


class ConformanceError(AssertionError):
    """A method, stream or policy breaks a promise; the message says which and what to do.

    >>> print(ConformanceError("MyMethod", "seeds", "two runs of one seed differ"))
    MyMethod breaks the promise 'seeds': two runs of one seed differ
    """

    def __init__(self, subject: str, check: str, sentence: str) -> None:
        super().__init__(f"{subject} breaks the promise {check!r}: {sentence}")
        self.subject = subject
        self.check = check
        self.sentence = sentence


class Broken(Exception):  # noqa: N818 - it becomes a ConformanceError
    """The finding of a check, as a sentence."""


@final
@dataclass(frozen=True)
class Check:
    """A check of one promise of a method, stream or memory policy; call it to run the check.

    If the promise does not apply, `skipped` says why, and calling the check does nothing.

    >>> Check("MyMethod", "seeds", "one seed, one outcome", lambda: None)()
    """

    subject: str
    name: str
    promise: str
    function: Callable[[], None] = field(repr=False)
    skipped: str = ""

    def __call__(self) -> None:
        """Raise a `ConformanceError` if the promise is broken."""
        if self.skipped:
            return
        try:
            self.function()
        except Broken as found:
            raise ConformanceError(self.subject, self.name, str(found)) from None
        except Exception as error:
            said = str(error) if isinstance(error, RecollectError) else repr(error)
            sentence = f"the check failed with an error: {said}"
            raise ConformanceError(self.subject, self.name, sentence) from error

    def __str__(self) -> str:
        return self.name


def make_check(
    subject: str,
    name: str,
    function: Callable[..., None],
    *cases: tuple[Any, ...],
    skipped: str = "",
) -> Check:
    """Create a check that calls a function with the arguments of every case.

    Its promise is the first line of the function's docstring.
    """

    def check() -> None:
        for arguments in cases:
            function(*arguments)

    promise = (function.__doc__ or name).partition("\n")[0].rstrip(".")
    return Check(subject, name, promise, check, skipped)
