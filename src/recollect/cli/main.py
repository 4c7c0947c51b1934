"""The command `recollect`."""

from __future__ import annotations

import io
import os
import shlex
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import entry_points
from inspect import signature
from threading import current_thread, main_thread
from typing import Any

from recollect import __version__
from recollect.cli.notices import notice
from recollect.cli.parser import Parser
from recollect.errors import RecollectError, SlowerWarning, TimeUp

__all__ = ["build_parser", "main"]

TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h
INTERRUPTED = 130

# The modules of `recollect.cli`, each imported when one of its commands is called: they need
# PyTorch, which takes seconds to import, and the list of commands does not.
COMMANDS = {
    "run": ("run", "train a method on a benchmark"),
    "reproduce": ("reproduce", "the paper's table, with ours beside it"),
    "search": ("search", "choose hyper-parameters as the paper does"),
    "stream": ("stream", "learn from files, pipes and folders of images"),
    "results": ("results", "list, export and import what was trained"),
    "report": ("report", "all results as one page that opens from disk"),
    "figures": ("figures", "the paper's figures, as PNG, SVG or data"),
    "methods": ("lists", "list the methods, or describe some"),
    "benchmarks": ("lists", "list the benchmarks"),
    "data": ("data", "list, fetch and verify the data sets"),
    "doctor": ("doctor", "what works on this machine"),
}
WITH_HYPERPARAMETERS = ("run", "search", "stream")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    0: done. 2: it was asked for the impossible. 75: its time limit came, and the same command
    continues. 130: interrupted.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    with _stopping_at_once():
        called = next((word for word in given if not word.startswith("-")), "")
        chosen = build_parser({called} & COMMANDS.keys()).parse_args(given)
        _name_broken_packages()
    chosen.line = shlex.join(["recollect", *given])
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="replace")
    try:
        with _short_warnings():
            status: int = chosen.command(chosen)
    except TimeUp as limit:
        notice(str(limit))
        return TRY_AGAIN
    except RecollectError as error:
        notice(str(error))
        return 2
    except KeyboardInterrupt:
        notice(f"interrupted{'; the same command continues' if 'time_limit' in chosen else ''}")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has gone; nothing is left to say, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


@contextmanager
def _stopping_at_once() -> Iterator[None]:
    """Meanwhile, Ctrl-C ends the process: an exception would be lost or printed by an import."""

    def stop(*_: object) -> None:
        os.write(2, b"recollect: stopped\n")
        os._exit(INTERRUPTED)

    usual = signal.default_int_handler
    if signal.getsignal(signal.SIGINT) is not usual or current_thread() is not main_thread():
        yield  # it is ignored, or someone else's
        return
    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Meanwhile, a warning that steps are slower is one line, without file and line of code."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, SlowerWarning):
                notice(str(message))
            else:
                usual(message, category, *where)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def build_parser(configured: Iterable[str] = COMMANDS) -> Parser:
    """The parser of all commands; those that are `configured` have their options."""
    parser = Parser(
        prog="recollect",
        description="Learn from a stream that keeps changing, without forgetting.",
    )
    parser.add_argument("--version", action="version", version=f"recollect {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    if {*configured}:
        _reserve_options()
    for name, (module, help_) in COMMANDS.items():
        command = commands.add_parser(name, help=help_)
        if name in configured:
            import_module(f"recollect.cli.{module}").configure(command)
    return parser


def _reserve_options() -> None:
    """Let no hyper-parameter of another package have the name of an option or of an argument."""
    from recollect.methods import others
    from recollect.methods.packages import GROUP, RESERVED

    if not entry_points(group=GROUP):
        return
    names = {"line", *signature(import_module("recollect.experiments").run).parameters}
    for each in WITH_HYPERPARAMETERS:
        parser = Parser()
        import_module(f"recollect.cli.{each}").configure(parser, {})
        names |= {action.dest for action in parser._actions} | {*parser._defaults}
    if not names <= RESERVED:
        RESERVED.update(names)
        others.cache_clear()


def _name_broken_packages() -> None:
    from recollect.methods import others

    for problem in others().problems:
        notice(problem)


if __name__ == "__main__":
    sys.exit(main())
