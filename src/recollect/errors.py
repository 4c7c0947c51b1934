"""Exceptions and warnings that recollect raises."""

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
    """Base class of recollect's errors; the message says what was wrong and what to do.

    >>> from recollect import run
    >>> try:
    ...     run("seq-digits", "derq")
    ... except RecollectError as error:
    ...     print(str(error)[:42])
    unknown method 'derq': did you mean 'der'?
    """


class InputError(RecollectError, ValueError):
    """An invalid argument or array; raised before anything changes.

    >>> from recollect import ER, MLP, Learner
    >>> try:
    ...     Learner(MLP(2, 1), ER()).observe([[1.0, 0.0]], ["a", "b"])
    ... except InputError as error:
    ...     print(error)
    there are 2 labels, but x has 1 examples: give as many labels as examples
    """


class DataError(RecollectError):
    """A data set or file that is missing, damaged or not in the expected format.

    >>> from recollect import MLP, Learner
    >>> try:
    ...     Learner.load("nowhere.recollect", MLP(2, 1))
    ... except DataError:
    ...     print("there is no such file")
    there is no such file
    """


class DivergedError(RecollectError, ArithmeticError):
    """A training step with a loss or weights that are not finite; the step was not applied.

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
    """A missing optional dependency; the message names the extra that installs it.

    >>> from recollect.extras import needs
    >>> try:
    ...     with needs("no_such_library", extra="dreams", what="Dreaming"):
    ...         import no_such_library
    ... except MissingExtraError:
    ...     print('pip install "recollect[dreams]"')
    pip install "recollect[dreams]"
    """


class TimeUp(RecollectError):  # noqa: N818 - not an error: the user set the limit
    """The time limit was reached before the end of the run; its state was saved.

    >>> import tempfile
    >>> from recollect import run
    >>> try:
    ...     run("seq-digits", "er", buffer=50, checkpoint=tempfile.mkdtemp(), time_limit=0.01)
    ... except TimeUp:
    ...     print("the same call continues")
    the same call continues
    """


class Terminated(SystemExit):
    """The process received SIGTERM; the text says what was saved. The exit status is 143.

    >>> Terminated("terminated before the first step").code
    143
    """

    def __init__(self, text: str = "") -> None:
        super().__init__(143)
        self.text = text

    def __str__(self) -> str:
        return self.text


class SlowerWarning(UserWarning):
    """Training steps could not be compiled or captured, and run in a slower mode.

    Results are the same. Each reason is reported once per process; the command line prints it as
    one line. To silence it or turn it into an error, use Python's warning filters:

    >>> import warnings
    >>> warnings.filterwarnings("ignore", category=SlowerWarning)
    """


def unknown_name(kind: str, name: str, known: Iterable[str]) -> InputError:
    """Create the error for an unknown name, with the most similar known name.

    >>> str(unknown_name("method", "der++", ["der", "derpp", "er"]))
    "unknown method 'der++': did you mean 'der'? (known: der, derpp, er)"
    """
    names = sorted(known)
    near = nearest(str(name).lower(), names)
    hint = f": did you mean {near!r}?" if near else ""
    return InputError(f"unknown {kind} {name!r}{hint} (known: {', '.join(names)})")


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Find the known name most similar to a misspelt one, or None.

    `cutoff`, from 0 to 1, is the least similarity.

    >>> nearest("--lamda", ["--lambda", "--lr"]), nearest("--width", ["--lr"])
    ('--lambda', None)
    """
    return next(iter(difflib.get_close_matches(name, [*known], n=1, cutoff=cutoff)), None)
