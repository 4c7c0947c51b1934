"""The folder in which a stream's state is kept, so that the same command continues."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

from recollect.errors import DataError, InputError
from recollect.files import write_bytes

__all__ = ["StateFolder"]

FACTS, LOCK, CHECKPOINTS = "stream.json", "lock", "*.recollect"
FORMAT = 1


@final
class StateFolder:
    """Checkpoints of a learner, beside what they were made with; for one process at a time.

    `stream.json` says how the stream was read and learned, and never changes. How far it was read
    is in every checkpoint, so that the two cannot differ.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._lock is not None:
            os.close(self._lock)

    def saved(self) -> dict[str, Any] | None:
        """What the stream was begun with, if there is a checkpoint to continue from."""
        if not any(self.path.glob(CHECKPOINTS)):
            return None
        self._take()
        try:
            found: dict[str, Any] = json.loads((self.path / FACTS).read_text("utf-8"))
            whole = found["format"] == FORMAT and {"settings", "layout", "shape"} <= {*found}
        except (OSError, ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            raise DataError(
                f"{self.path} has checkpoints, and no {FACTS} that says of what: --fresh starts "
                f"over, and --checkpoint DIR keeps the state elsewhere"
            )
        return found

    def check(self, settings: Mapping[str, Any]) -> None:
        """Refuse to continue with other settings than before."""
        before = (self.saved() or {}).get("settings", {})
        for name, now in settings.items():
            if before.get(name) != now:
                raise InputError(
                    f"the state in {self.path} was learned with {_option(name, before.get(name))}, "
                    f"not with {_option(name, now)}: --fresh starts over, and --checkpoint DIR "
                    f"keeps both"
                )

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Start over: remove older checkpoints, and say what the next ones are made with."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._take()
            for old in self.path.glob(CHECKPOINTS):
                old.unlink()
            write_bytes(
                self.path / FACTS, json.dumps({"format": FORMAT, **facts}, indent=1).encode()
            )
        except OSError as error:
            raise DataError(
                f"cannot keep the state in {self.path}: {error.strerror or error}"
            ) from None

    def _take(self) -> None:
        """Make sure that no other process continues the same stream at the same time."""
        if self._lock is not None:
            return
        try:
            import fcntl
        except ImportError:  # not on this system
            return
        self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(
                f"another process learns with the state in {self.path}: end it, or give another "
                f"folder as --checkpoint"
            ) from None


def _option(name: str, value: Any) -> str:
    """A setting as it is written on the command line.

    >>> _option("memory", 500), _option("label", None), _option("hidden", [10, 10])
    ('--memory 500', 'no --label', '--hidden 10 10')
    """
    if value is None or value == []:
        return f"no --{name}"
    words = value if isinstance(value, list) else [value]
    return f"--{name} {' '.join(str(word) for word in words)}"
