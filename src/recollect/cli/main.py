"""Entry point of the command `recollect`."""

from __future__ import annotations

import errno
import io
import os
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import entry_points
from inspect import signature
from itertools import pairwise
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any

from recollect import __version__
from recollect.cli.parser import Parser
from recollect.cli.screen import notice
from recollect.cli.start import stop_at_once
from recollect.errors import InputError, RecollectError, SlowerWarning, Terminated, TimeUp

if TYPE_CHECKING:
    from recollect.methods import Method

TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h
INTERRUPTED = 130
TERMINATED = 143
OUTSIDE = "; no training was in progress: run the same command again to continue"

# Modules of `recollect.cli` with a line of help. They are imported when their command is called, as
# they need PyTorch, which takes seconds to import.
COMMANDS = {
    "run": ("run", "train a method on a benchmark"),
    "reproduce": ("reproduce", "reproduce the paper's tables, and compare with its results"),
    "search": ("search", "search hyper-parameters on the validation split"),
    "stream": ("stream", "learn from files, pipes and folders of images"),
    "results": ("results", "list, export and import results"),
    "compare": ("compare", "compare two configurations: paired differences, intervals, tests"),
    "report": ("report", "write all results to a self-contained HTML page"),
    "figures": ("figures", "draw the paper's figures, as PNG, SVG or data"),
    "methods": ("lists", "list all methods, or describe some"),
    "benchmarks": ("lists", "list all benchmarks"),
    "data": ("data", "list, fetch and verify data sets"),
    "doctor": ("doctor", "check this installation: hardware, data sets, extras"),
}
WITH_HYPERPARAMETERS = ("run", "search", "stream")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    0: success. 2: invalid input. 75: time limit reached, the same command continues. 130:
    interrupted (Ctrl+C). 143: terminated (SIGTERM).
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    with _handling_signals(stop_at_once):
        called = next((word for word in given if not word.startswith("-")), "")
        try:
            parser = build_parser({called} & COMMANDS.keys(), given)
        except InputError as error:
            notice(str(error))
            return 2
        chosen = parser.parse_args(given)
        for problem in import_module("recollect.methods").others().problems:
            notice(problem)
        chosen.line = shlex.join(["recollect", *given])
        for output in (sys.stdout, sys.stderr):
            if isinstance(output, io.TextIOWrapper):
                output.reconfigure(errors="replace")
        outside = OUTSIDE if "time_limit" in chosen else ""
    try:
        with _short_warnings(), _handling_signals(_raise):
            status: int = chosen.command(chosen)
            print(end="", flush=True)  # so that a full disk is noticed here
    except TimeUp as limit:
        notice(str(limit))
        return TRY_AGAIN
    except RecollectError as error:
        notice(str(error))
        return 2
    except KeyboardInterrupt as stop:
        notice(str(stop) or f"interrupted{outside}")
        # Had the interrupt come within exec of a string (dataclasses and namedtuples are made by
        # it while modules are imported), CPython would end this process by SIGINT, caught or not.
        # The next exec of a string forgets it.
        exec("")
        return INTERRUPTED
    except Terminated as stop:
        if not str(stop):  # already reported where training was stopped
            notice(f"terminated{outside}")
        return TERMINATED
    except OSError as error:
        gone = isinstance(error, BrokenPipeError)
        if not gone and error.errno != errno.ENOSPC:
            raise
        # The reader of the output is gone, or its disk is full: print nothing more, also at exit.
        with suppress(io.UnsupportedOperation):  # it may be another object within Python
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if gone:
            return 0
        notice(f"cannot write {error.filename or 'all output'}: {error.strerror}")
        return 2
    return status


def _raise(number: int, frame: object) -> None:
    raise KeyboardInterrupt if number == signal.SIGINT else Terminated


@contextmanager
def _handling_signals(handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Handle Ctrl+C and SIGTERM within the context, unless they are ignored or have a handler."""
    usual: dict[int, Any] = {
        signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL,
    }  # fmt: skip
    if current_thread() is not main_thread():
        yield
        return
    ours = [number for number, before in usual.items() if signal.getsignal(number) is before]
    for number in ours:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, usual[number])


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Print warnings about slower steps on one line, without file and line of code."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, SlowerWarning):
                notice(str(message))
            else:
                usual(message, category, *where)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def build_parser(configured: Iterable[str] = COMMANDS, words: Sequence[str] = ()) -> Parser:
    """Build the parser of all commands; only the `configured` ones get their options.

    If `words` ask for help and name a method, hyper-parameters of other methods are omitted.
    """
    parser = Parser(
        prog="recollect",
        description="Continual learning from changing data streams, without forgetting.",
    )
    parser.add_argument("--version", action="version", version=f"recollect {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    if {*configured}:
        located = _located(words)
        _reserve_options(located)
        for word in located:
            import_module("recollect.methods").method(word)  # its hyper-parameters are options
    for name, (module, help_) in COMMANDS.items():
        command = commands.add_parser(name, help=help_)
        if name in configured:
            methods = [_named_methods(words)] if name in WITH_HYPERPARAMETERS else []
            import_module(f"recollect.cli.{module}").configure(command, *methods)
    return parser


def _located(words: Sequence[str]) -> list[str]:
    """Return the words that name a method by its file or module.

    After an option, a word with a colon may be something else, such as ray:ADDRESS or a path.
    """
    from recollect.core.locations import is_location

    found = []
    for before, word in pairwise(["", *words]):
        name = word.rpartition("=")[2]
        free = not before.startswith("--") or before in ("--method", "--methods")
        network = before == "--network" or word.startswith("--network=")
        if is_location(name) and not network and (free or ".py:" in name):
            found.append(name)
    return found


def _named_methods(words: Sequence[str]) -> Mapping[str, type[Method]] | None:
    from recollect.methods import method

    found = {}
    for word in words if {"-h", "--help"} & {*words} else ():
        with suppress(InputError):
            kind = method(word.rpartition("=")[2])
            found[kind.name] = kind
    return found or None


def _reserve_options(located: Sequence[str]) -> None:
    """Refuse hyper-parameters of other packages or files that have the name of an option."""
    from recollect.methods import others
    from recollect.methods.packages import GROUP, RESERVED

    if not (located or entry_points(group=GROUP)):
        return
    names = {"line", *signature(import_module("recollect.experiments").run).parameters}
    for each in WITH_HYPERPARAMETERS:
        parser = Parser()
        import_module(f"recollect.cli.{each}").configure(parser, {})
        names |= {action.dest for action in parser._actions} | {*parser._defaults}
    if not names <= RESERVED:
        RESERVED.update(names)
        others.cache_clear()


if __name__ == "__main__":
    sys.exit(main())
