"""A worker process that trains one fleet."""

from __future__ import annotations

import multiprocessing
import sys
import traceback
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from recollect.errors import RecollectError, SlowerWarning, TimeUp
from recollect.train.checkpoint import Checkpoints
from recollect.train.devices import one_thread
from recollect.train.interrupts import in_worker
from recollect.train.job import Job
from recollect.train.loop import train


def start_worker(piece: Job, checkpoints: Checkpoints | None) -> tuple[Connection, BaseProcess]:
    """Start a process that trains one fleet; if it is forked, it shares the loaded data set."""
    context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(piece, theirs, checkpoints), daemon=True)
    process.start()
    theirs.close()
    return ours, process


def _work(piece: Job, connection: Connection, checkpoints: Checkpoints | None) -> None:
    in_worker()
    _pass_warnings_on(connection)
    with suppress(BrokenPipeError):  # the parent has ended
        connection.send(_outcome(piece, connection, checkpoints))


def _outcome(
    piece: Job, connection: Connection, checkpoints: Checkpoints | None
) -> tuple[str, object]:
    try:
        with one_thread():
            return "results", train(
                piece, lambda steps: connection.send(("steps", steps)), checkpoints
            )
    except TimeUp as limit:
        return "stopped", limit
    except RecollectError as error:
        return "error", error
    except BrokenPipeError:
        raise
    except Exception:
        trace = traceback.format_exc()
        return "error", RuntimeError(f"training failed in a process:\n{trace}")


def _pass_warnings_on(connection: Connection) -> None:
    """Send warnings of slower steps to the parent process, which shows them once."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
        if issubclass(category, SlowerWarning):
            connection.send(("slower", str(message)))
        else:
            usual(message, category, *where)

    warnings.showwarning = show  # type: ignore[assignment]
