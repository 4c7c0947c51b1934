"""A worker process that trains one fleet."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import traceback
import warnings
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from recollect.errors import InputError, RecollectError, SlowerWarning, TimeUp
from recollect.train.checkpoint import Checkpoints
from recollect.train.devices import one_thread
from recollect.train.interrupts import in_worker
from recollect.train.job import Job
from recollect.train.loop import train

__all__ = ["start_method", "start_worker"]


def start_worker(piece: Job, checkpoints: Checkpoints | None) -> tuple[Connection, BaseProcess]:
    """Start a process that trains one fleet; if it is forked, it shares the loaded data set."""
    method = start_method(piece.device)
    context: Any = multiprocessing.get_context(method)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(piece, theirs, checkpoints), daemon=True)
    try:
        process.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"a new process cannot be given this job ({error}): define the network, the method and "
            f"the stream at the top of a module, not within a function, or use one worker"
        ) from None
    theirs.close()
    return ours, process


def start_method(device: torch.device) -> str:
    """How processes that use this device are started; a forked one could not use a GPU."""
    return "fork" if sys.platform == "linux" and device.type == "cpu" else "spawn"


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
    except torch.OutOfMemoryError:
        return "error", RecollectError(
            "the fleets that share the GPU do not fit into its memory together: use fewer workers "
            "(--workers), or one, which splits fleets that do not fit"
        )
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
