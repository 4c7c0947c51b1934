"""A consistent copy of a learner's state that is written while it continues to learn."""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, Event
from typing import final

import torch
from torch import Tensor

from recollect.errors import DataError
from recollect.files import CHUNK, Pause, write_packed
from recollect.learner.engine.threads import threads_for
from recollect.memory import Memory
from recollect.train.guard import Guard

REST = 3


@final
class Image:
    """A copy of a learner's tensors between two steps, with its plain data as JSON.

    The replay memory, which may be large, is copied only when the file is written: steps log the
    rows that they overwrite meanwhile, and these are restored in the copy. `pause` is called after
    every few megabytes.
    """

    pause: Pause = staticmethod(lambda: None)

    def __init__(self, facts: str, tensors: Mapping[str, Tensor]) -> None:
        self._facts, self._tensors = facts, {n: t.clone() for n, t in tensors.items()}
        self._memory: tuple[str, Memory, Guard] | None = None

    def with_memory(self, prefix: str, memory: Memory, guard: Guard) -> Image:
        """Add a memory, whose tensors are named with this prefix, and return the image."""
        self._memory = prefix, memory, guard
        self._overwritten = guard.log_rows()
        return self

    def write(self, path: Path) -> None:
        """Write the file atomically; it is on disk when this returns."""
        tensors = dict(self._tensors)
        if self._memory is not None:
            prefix, memory, guard = self._memory
            try:
                # One thread, so that steps and predictions have the other cores.
                with threads_for(0):
                    copied = _copied(memory, self.pause)
                # Undo from the latest to the first: a row may have been overwritten repeatedly.
                for rows, values in reversed(self._overwritten):
                    copied.write(rows, values)
            finally:
                guard.end_log(self._overwritten)
            tensors |= {f"{prefix}{name}": t for name, t in copied.tensors.items()}
        try:
            if path.exists() and not path.is_file() and not path.is_dir():
                raise DataError(
                    f"{str(path)!r} cannot be written: it is a device or a pipe, not a file"
                )
            write_packed(path, self._facts, tensors, self.pause)
        except OSError as error:
            raise DataError(f"{str(path)!r} cannot be written: {error.strerror or error}") from None


def _copied(memory: Memory, pause: Pause) -> Memory:
    found = copy.copy(memory)
    found.tensors = {name: torch.empty_like(tensor) for name, tensor in memory.tensors.items()}
    for name, tensor in memory.tensors.items():
        rows = max(1, CHUNK // max(1, tensor[0].numel() * tensor.element_size()))
        parts = zip(found.tensors[name].split(rows), tensor.split(rows), strict=True)  # type: ignore[no-untyped-call]
        for mine, theirs in parts:
            mine.copy_(theirs)
            pause()
    return found


@final
class Pace:
    """The pauses of a thread that writes in the background, so that others find a free core.

    After each piece of work, the thread rests for `REST` times the CPU time that it took, so it
    never needs more than a quarter of a core. It is not given a lower priority instead: on a busy
    machine, all threads would then wait whenever it has Python's global lock.
    """

    def __init__(self) -> None:
        self._hurried = Event()
        self._used = 0.0  # CPU seconds of the thread, which starts with this object

    def __call__(self) -> None:
        """Rest, unless another thread waits for this one."""
        self._hurried.wait(REST * (time.thread_time() - self._used))
        self._used = time.thread_time()

    def hurry(self) -> None:
        """Stop resting; any thread may call this."""
        self._hurried.set()


@final
class Writing:
    """Counts the files being written by threads, so that another thread can wait for them."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = Condition()

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Context in which a file is being written."""
        with self._changed:
            self._count += 1
        try:
            yield
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()

    def wait(self) -> None:
        """Wait until no file is being written."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count)


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Convert errors while a file is read to a `DataError` that names the file."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror or error}") from None
    except DataError as error:
        message = str(error)
        raise DataError(message if str(path) in message else f"{path}: {message}") from None
