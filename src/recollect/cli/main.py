"""The command `recollect`."""

from __future__ import annotations

import argparse
import io
import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from recollect import __version__
from recollect.cli import (
    data,
    doctor,
    figures,
    lists,
    report,
    reproduce,
    results,
    run,
    search,
    stream,
)
from recollect.cli.common import notice
from recollect.errors import RecollectError, SlowerWarning
from recollect.methods import others
from recollect.train import TimeUp

__all__ = ["build_parser", "main"]

TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    0: done. 2: it was asked for the impossible. 75: its time limit came, and the same command
    continues. 130: interrupted.
    """
    for problem in others().problems:
        notice(problem)
    given = sys.argv[1:] if arguments is None else list(arguments)
    chosen = build_parser().parse_args(given)
    chosen.line = shlex.join(["recollect", *given])
    for output in (sys.stdout, sys.stderr):
        if isinstance(output, io.TextIOWrapper):
            output.reconfigure(errors="replace")
    try:
        with _short_warnings():
            status: int = chosen.command(chosen)
    except TimeUp as limit:
        print(f"recollect: {limit}", file=sys.stderr)
        return TRY_AGAIN
    except RecollectError as error:
        print(f"recollect: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        again = "; the same command continues" if hasattr(chosen, "time_limit") else ""
        print(f"recollect: interrupted{again}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read the output has gone; nothing is left to tell, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Meanwhile, a warning that steps are slower is one line, without a place in the code."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, SlowerWarning):
                notice(str(message))
            else:
                usual(message, category, *where)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="recollect",
        description="Learn from a stream that keeps changing, without forgetting.",
    )
    parser.add_argument("--version", action="version", version=f"recollect {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for room in (
        run, reproduce, search, stream, results, report, figures, lists, data, doctor,
    ):  # fmt: skip
        room.add_parser(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
