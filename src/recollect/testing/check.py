"""One promise at a time: what a check is, and what is raised when a promise is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import final

from recollect.errors import RecollectError

__all__ = ["Broken", "Check", "ConformanceError", "run_all"]


class ConformanceError(AssertionError):
    """A promise that is broken: by what, which one, and what to do about it.

    >>> print(ConformanceError("MyMethod", "seeds", "two runs of one seed differ"))
    MyMethod breaks the promise 'seeds': two runs of one seed differ
    """

    def __init__(self, subject: str, check: str, sentence: str) -> None:
        super().__init__(f"{subject} breaks the promise {check!r}: {sentence}")
        self.subject = subject
        self.check = check
        self.sentence = sentence


class Broken(Exception):  # noqa: N818 - it becomes a ConformanceError
    """What a check found, in a sentence."""


@final
@dataclass(frozen=True)
class Check:
    """One promise of a method, a stream or a memory: call it, and it raises if that is broken.

    Where the promise cannot be asked for, `skipped` says why, and calling it does nothing.

    >>> Check("MyMethod", "seeds", "one seed, one outcome", lambda: None)()
    """

    subject: str
    name: str
    promise: str
    look: Callable[[], None] = field(repr=False)
    skipped: str = ""

    def __call__(self) -> None:
        """Raise a `ConformanceError` if the promise is broken."""
        if self.skipped:
            return
        try:
            self.look()
        except Broken as found:
            raise ConformanceError(self.subject, self.name, str(found)) from None
        except Exception as error:
            said = str(error) if isinstance(error, RecollectError) else repr(error)
            sentence = f"it could not be carried out: {said}"
            raise ConformanceError(self.subject, self.name, sentence) from error

    def __str__(self) -> str:
        return self.name


def run_all(checks: Iterable[Check]) -> None:
    """Every check in turn; the first broken promise is raised."""
    for check in checks:
        check()
