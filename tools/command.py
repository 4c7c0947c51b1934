"""Run a tool as a command: errors and Ctrl+C end it with one line."""

from __future__ import annotations

import sys
from collections.abc import Callable

from recollect.errors import RecollectError

__all__ = ["run_command"]


def run_command(main: Callable[[], int]) -> None:
    """Exit with the status of `main`, a tool that saves every result and can be resumed."""
    try:
        sys.exit(main())
    except RecollectError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        print("stopped: finished results are saved, and the same command resumes", file=sys.stderr)
        sys.exit(130)
