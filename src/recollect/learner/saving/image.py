"""A consistent copy of a learner's state that is written while it continues to learn."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Condition, Event
from typing import final

from torch import Tensor

from recollect.errors import DataError
from recollect.files import Pause, write_packed
from recollect.learner.engine.threads import threads_for
from recollect.learner.saving.memory_image import MemoryImage
from recollect.memory import Memory
from recollect.train.guard import Guard

REST = 3


@final
class Image:
    """A copy of a learner's tensors between two steps, with its plain data as JSON.

    The replay memory, which may be large, is not copied: see `MemoryImage`. `pause` is called after
    every megabyte that is written.
    """

    pause: Pause = staticmethod(lambda: None)

    def __init__(self, facts: str, tensors: Mapping[str, Tensor]) -> None:
        self._facts, self._tensors = facts, {n: t.clone() for n, t in tensors.items()}
        self._memory: tuple[str, MemoryImage] | None = None

    def with_memory(self, prefix: str, memory: Memory, guard: Guard) -> Image:
        """Add a memory, whose tensors are named with this prefix, and return the image."""
        self._memory = prefix, MemoryImage(memory, guard)
        return self

    def write(self, path: Path) -> None:
        """Write the file atomically, once; it is on disk when this returns."""
        tensors, parts = dict(self._tensors), dict[str, Iterator[Tensor]]()
        with ExitStack() as stack:
            if self._memory is not None:
                prefix, memory = self._memory
                stack.callback(memory.close)
                tensors |= {f"{prefix}{name}": t for name, t in memory.tensors.items()}
                parts = {f"{prefix}{name}": memory.parts(name) for name in memory.tensors}
            # One thread, so that steps and predictions have the other cores.
            stack.enter_context(threads_for(0))
            try:
                if not path.name or path.is_dir():
                    raise DataError(f"{str(path)!r} is a folder: add the name of a file to write")
                if path.exists() and not path.is_file():
                    raise DataError(
                        f"{str(path)!r} cannot be written: it is a device or a pipe, not a file"
                    )
                write_packed(path, self._facts, tensors, self.pause, parts)
            except OSError as error:
                raise DataError(
                    f"{str(path)!r} cannot be written: {error.strerror or error}"
                ) from None


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
