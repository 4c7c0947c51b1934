"""A consistent copy of a learner's state that is written while it continues to learn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Condition
from typing import final

from torch import Tensor

from recollect.errors import DataError
from recollect.files import write_packed
from recollect.learner.engine.threads import threads_for
from recollect.memory import Memory
from recollect.train.guard import Guard

__all__ = ["Image", "Writing", "reading"]


@final
class Image:
    """A copy of a learner's tensors between two steps, with its plain data as JSON.

    The replay memory, which may be large, is copied only when the file is written: steps log the
    rows that they overwrite meanwhile, and these are restored in the copy.
    """

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
                    copied = memory.copy()
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
            write_packed(path, self._facts, tensors)
        except OSError as error:
            raise DataError(f"{str(path)!r} cannot be written: {error.strerror or error}") from None


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
