"""The folder in which the state of a live stream is saved, for one process at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from recollect.errors import DataError, InputError
from recollect.files import write_bytes

__all__ = ["SettingsError", "StateFolder"]

FACTS, LOCK, CHECKPOINTS = "stream.json", "lock", "*.recollect"
FORMAT = 1


class SettingsError(InputError):
    """A state cannot be continued, because the setting `name` was `before` and is `now`."""

    def __init__(self, folder: Path, name: str, before: Any, now: Any) -> None:
        super().__init__(
            f"the state in {folder} was learned with {name}={before!r}, not with {name}={now!r}: "
            f"fresh=True starts over, and another folder keeps both"
        )
        self.folder, self.name, self.before, self.now = folder, name, before, now


@final
class StateFolder:
    """Checkpoints of a learner, beside what they were made with.

    `stream.json` says how the stream is read and learned, and never changes. How far it was read
    is in every checkpoint, so that the two cannot differ.
    """

    def __init__(self, path: Path) -> None:
        if path.is_file():
            raise InputError(f"the state goes into a folder, and {path} is a file")
        self.path = path
        self._lock: int | None = None

    def close(self) -> None:
        """Let other processes use the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def saved(self, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """What `begin` noted, if there is a checkpoint; refused if it has other settings."""
        if not any(self.path.glob(CHECKPOINTS)):
            return None
        self._acquire()
        try:
            found: dict[str, Any] = json.loads((self.path / FACTS).read_text("utf-8"))
            known = {"settings", "layout", "shape", "image"} <= {*found}
            before: dict[str, Any] | None = found["settings"] if known else None
            before = before if found["format"] == FORMAT else None
        except (OSError, ValueError, KeyError, TypeError):
            before = None
        if before is None:
            raise DataError(
                f"{self.path} has checkpoints, and no {FACTS} that says of what: fresh=True starts "
                f"over, and another folder keeps both"
            )
        for name, now in settings.items():
            if before.get(name) != now:
                raise SettingsError(self.path, name, before.get(name), now)
        return found

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Start over: remove older checkpoints, and note what the next ones are made with."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._acquire()
            for old in self.path.glob(CHECKPOINTS):
                old.unlink()
            text = json.dumps({"format": FORMAT, **facts}, indent=1)
            write_bytes(self.path / FACTS, text.encode())
        except OSError as error:
            raise DataError(
                f"cannot save the state in {self.path}: {error.strerror or error}"
            ) from None

    def _acquire(self) -> None:
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
                f"folder"
            ) from None
