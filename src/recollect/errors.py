"""The errors that recollect raises on purpose; each message is for the person who reads it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "DataError",
    "DivergedError",
    "InputError",
    "MissingExtraError",
    "RecollectError",
    "SlowerWarning",
    "Terminated",
    "TimeUp",
    "nearest",
    "unknown_name",
]


class RecollectError(Exception):
    """What went wrong, what was expected and what to do, in one sentence.

    >>> from recollect import run
    >>> try:
    ...     run("seq-digits", "derq")
    ... except RecollectError as error:
    ...     print(str(error)[:42])
    unknown method 'derq': did you mean 'der'?
    """


class InputError(RecollectError, ValueError):
    """An argument or an array that cannot be used; nothing has been changed.

    >>> from recollect import ER, MLP, Learner
    >>> try:
    ...     Learner(MLP(2, 1), ER()).observe([[1.0, 0.0]], ["a", "b"])
    ... except InputError as error:
    ...     print(error)
    there are 2 labels and 1 examples
    """


class DataError(RecollectError):
    """A data set that cannot be found, or whose files are not what they should be.

    >>> from recollect import MLP, Learner
    >>> try:
    ...     Learner.load("nowhere.recollect", MLP(2, 1))
    ... except DataError:
    ...     print("there is no such file")
    there is no such file
    """


class DivergedError(RecollectError, ArithmeticError):
    """A step whose loss or weights are not finite; nothing has been changed.

    >>> from recollect import MLP, SGD, Learner
    >>> learner = Learner(MLP(2, 1), SGD(), lr=1e30)
    >>> try:
    ...     for _ in range(9):
    ...         loss = learner.observe([[1.0, 2.0], [2.0, 1.0]], ["a", "b"])
    ... except DivergedError:
    ...     print("take a lower lr")
    take a lower lr
    """


class MissingExtraError(RecollectError, ImportError):
    """A library that is not installed, and the extra of recollect that brings it.

    >>> from recollect.extras import needs
    >>> try:
    ...     with needs("no_such_library", extra="dreams", what="Dreaming"):
    ...         import no_such_library
    ... except MissingExtraError:
    ...     print('pip install "recollect[dreams]"')
    pip install "recollect[dreams]"
    """


class TimeUp(RecollectError):  # noqa: N818 - not a mistake: the person set the limit
    """The time limit came before the end; the state was saved.

    >>> import tempfile
    >>> from recollect import run
    >>> try:
    ...     run("seq-digits", "er", buffer=50, checkpoint=tempfile.mkdtemp(), time_limit=0.01)
    ... except TimeUp:
    ...     print("the same call continues")
    the same call continues
    """


class Terminated(SystemExit):
    """SIGTERM came; the text says what was saved. The exit status is 143.

    >>> Terminated("terminated before the first step").code
    143
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(143)
        self.text = text

    def __str__(self) -> str:
        return self.text


class SlowerWarning(UserWarning):
    """Steps could not be compiled or recorded, and are taken in a slower way.

    Results are the same. It is given once for every reason in a process; the command line prints
    it as one line. To turn it off or into an error, use Python's filters:

    >>> import warnings
    >>> warnings.filterwarnings("ignore", category=SlowerWarning)
    """


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that does not exist, with the nearest one that does.

    >>> str(unknown_name("method", "der++", ["der", "derpp", "er"]))
    "unknown method 'der++': did you mean 'der'? (known: der, derpp, er)"
    """
    names = sorted(known)
    near = nearest(name.lower(), names)
    hint = f": did you mean {near!r}?" if near else ""
    return InputError(f"unknown {kind} {name!r}{hint} (known: {', '.join(names)})")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like a misspelt one, if there is one like it.

    >>> nearest("--lamda", ["--lambda", "--lr"]), nearest("--width", ["--lr"])
    ('--lambda', None)
    """
    return next(iter(difflib.get_close_matches(name, [*known], n=1, cutoff=0.5)), None)
