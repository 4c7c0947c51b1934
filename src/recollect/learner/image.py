"""The state of a learner at one moment, to be written while it learns on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Condition
from typing import final

from torch import Tensor

from recollect.errors import DataError
from recollect.files import write_packed
from recollect.memory import Memory
from recollect.train.guard import Guard

__all__ = ["Image", "Writing", "reading"]


@final
class Image:
    """A copy of the tensors of a learner between two steps, with its facts as a text.

    The memory of examples, which may be large, is not copied at once: steps note what they
    overwrite of it, and whoever writes the image puts that back into the copy.
    """

    def __init__(self, facts: str, tensors: Mapping[str, Tensor]) -> None:
        self._facts, self._tensors = facts, {n: t.clone() for n, t in tensors.items()}
        self._memory: tuple[str, Memory, Guard] | None = None

    def with_memory(self, prefix: str, memory: Memory, guard: Guard) -> Image:
        """The same with a memory, whose tensors have names with this prefix."""
        self._memory = prefix, memory, guard
        self._overwritten = guard.log_rows()
        return self

    def write(self, path: Path) -> None:
        """Write a file that is there whole or not at all, and on the disk when this returns."""
        tensors = dict(self._tensors)
        if self._memory is not None:
            prefix, memory, guard = self._memory
            try:
                copied = memory.copy()
                # The first time that a row was overwritten counts: that is what it held.
                for rows, values in reversed(self._overwritten):
                    copied.write(rows, values)
            finally:
                guard.end_log(self._overwritten)
            tensors |= {f"{prefix}{name}": t for name, t in copied.tensors.items()}
        try:
            if path.exists() and not path.is_file() and not path.is_dir():
                raise DataError(f"{path} cannot be written: it is a device or a pipe, not a file")
            write_packed(path, self._facts, tensors)
        except OSError as error:
            raise DataError(f"{path} cannot be written: {error.strerror or error}") from None


@final
class Writing:
    """Counts the files that threads are writing, so that another one can wait for them."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = Condition()

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """A file is written while this lasts."""
        with self._changed:
            self._count += 1
        try:
            yield
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()

    def wait(self) -> None:
        """Wait for all of them."""
        with self._changed:
            self._changed.wait_for(lambda: not self._count)


@contextmanager
def reading(path: str | Path) -> Iterator[None]:
    """Turn what goes wrong while a file is read into a `DataError` that names the file."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    except DataError as error:
        message = str(error)
        raise DataError(message if str(path) in message else f"{path}: {message}") from None
