"""What a live stream has on the disk: a folder with its state, and a file of predictions."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np

from recollect.errors import DataError, InputError
from recollect.feeds import Feed
from recollect.feeds.record import Layout
from recollect.files import check_new, check_writable, write_bytes

__all__ = ["Predictions", "Saving", "SettingsError", "StateFolder", "output_of"]

FACTS, VERSIONS, CHECKPOINTS = "stream.json", "versions.json", "*.recollect"
WRITTEN = "predictions.json"
FORMAT = 1
START_OVER = "fresh=True starts over"


class SettingsError(InputError):
    """A state cannot be continued, because the setting `name` was `before` and is `now`."""

    def __init__(self, folder: Path, name: str, before: Any, now: Any) -> None:
        super().__init__(
            f"the state in {folder} was learned with {name}={before!r}, not with {name}={now!r}: "
            f"{START_OVER}, and another folder keeps both"
        )
        self.folder, self.name, self.before, self.now = folder, name, before, now


@final
class StateFolder:
    """Checkpoints of a learner, which locks the folder, beside what they were made with.

    `stream.json` says how the stream is read and learned, and never changes. How far it was read
    is in every checkpoint, so that the two cannot differ. `predictions.json` names the files of
    predictions that were begun, which may be written anew.
    """

    def __init__(self, path: Path) -> None:
        if path.is_file():
            raise InputError(f"the state goes into a folder, and {path} is a file")
        self.path = path

    def saved(self, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """What `begin` noted, if there is a checkpoint; refused if it has other settings."""
        if not any(self.path.glob(CHECKPOINTS)):
            return None
        try:
            found: dict[str, Any] = json.loads((self.path / FACTS).read_text("utf-8"))
            if found["format"] != FORMAT or not {"layout", "shape", "image"} <= {*found}:
                raise ValueError
            before = {name: found["settings"].get(name) for name in settings}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise DataError(
                f"{self.path} has checkpoints, and no {FACTS} that says of what: {START_OVER}, and "
                f"another folder keeps both"
            ) from None
        for name, now in settings.items():
            if before[name] != now:
                raise SettingsError(self.path, name, before[name], now)
        return found

    def begin(self, settings: Mapping[str, Any], layout: Layout | None, x: np.ndarray) -> None:
        """Start over: remove older checkpoints, and note what the next ones are made with."""
        image = x.dtype == np.uint8
        facts = {"settings": settings, "layout": layout, "shape": [*x.shape], "image": image}
        try:
            for old in [*self.path.glob(CHECKPOINTS), self.path / VERSIONS]:
                old.unlink(missing_ok=True)
            text = json.dumps({"format": FORMAT, **facts}, indent=1)
            write_bytes(self.path / FACTS, text.encode())
        except OSError as error:
            raise DataError(
                f"cannot save the state in {self.path}: {error.strerror or error}"
            ) from None

    def wrote(self, path: Path) -> bool:
        """Whether this state began the file of predictions there."""
        return str(path) in self._written()

    def note_written(self, path: Path) -> None:
        """Note that a file of predictions is this state's own, before it is made."""
        if not self.wrote(path):
            text = json.dumps([*self._written(), str(path)], indent=1)
            write_bytes(self.path / WRITTEN, text.encode())

    def check_output(self, output: Path | BinaryIO | None, force: bool) -> None:
        """Refuse to overwrite a file that this state did not begin."""
        if isinstance(output, Path) and not self.wrote(output):
            check_new(output, force)

    def opened(
        self, output: Path | BinaryIO | None, lengths: Mapping[str, int] | None = None
    ) -> Predictions:
        """The predictions, to be written from these lengths on."""
        if isinstance(output, Path):
            self.note_written(output)
        return Predictions(output, lengths)

    def _written(self) -> list[str]:
        try:
            found = json.loads((self.path / WRITTEN).read_text("utf-8"))
        except (OSError, ValueError):
            return []
        return found if isinstance(found, list) else []


@final
class Saving:
    """When to save: after so many seconds, or after so many `steps`; None is never."""

    def __init__(self, seconds: float | None, steps: int | None) -> None:
        self._seconds, self._steps = seconds, steps
        self.unsaved, self._at = 0, 0.0

    def count(self) -> None:
        """A batch was taken."""
        self.unsaved += 1

    def done(self) -> None:
        """All is saved, or there is nothing yet."""
        self.unsaved, self._at = 0, time.monotonic()

    def due(self) -> bool:
        """Whether to save now."""
        if self._steps is not None:
            return self.unsaved >= self._steps
        return self._seconds is not None and time.monotonic() - self._at >= self._seconds


@final
class Predictions:
    """Writes a JSON line for every example to a file, an open binary stream, or nowhere (None).

    A file that is continued is truncated to the length that it had when the state was saved: what
    was written after that is written again. `lengths` has the length of every file so far.
    """

    def __init__(
        self, output: Path | BinaryIO | None, lengths: Mapping[str, int] | None = None
    ) -> None:
        self.lengths = dict(lengths or {})
        self._path = output if isinstance(output, Path) else None
        self._file = None if isinstance(output, Path) else output
        if self._path is not None:
            self._file = _opened(self._path, self.lengths.get(str(self._path), 0))

    def write(self, lines: Iterable[Mapping[str, Any]]) -> None:
        """Write lines, so that whoever reads along sees them."""
        if self._file is not None:
            # A kept column of Parquet may be a time, which JSON has not.
            texts = (json.dumps(line, ensure_ascii=False, default=str) for line in lines)
            text = "".join(f"{each}\n" for each in texts)
            # What cannot be encoded becomes the escape that JSON has for it.
            self._file.write(text.encode("utf-8", "backslashreplace"))
            self._file.flush()

    def sync(self) -> None:
        """Have all lines on the disk, and note how many bytes they are."""
        if self._file is not None and self._path is not None:
            os.fsync(self._file.fileno())
            self.lengths[str(self._path)] = self._file.tell()

    def close(self) -> None:
        """Close the file; a stream that was given stays open."""
        if self._file is not None and self._path is not None:
            self._file.close()


def output_of(
    predictions: str | Path | BinaryIO | None, feeds: Sequence[Feed]
) -> Path | BinaryIO | None:
    """Where predictions go; refused if nothing can be written there, or if it is what is read."""
    if not isinstance(predictions, str | Path):
        return predictions
    path = Path(predictions).absolute()
    check_writable(predictions)
    if path in {Path(source).absolute() for feed in feeds for source in feed.sources}:
        raise InputError(f"predictions would overwrite what is read: give another file than {path}")
    return path


def _opened(path: Path, length: int) -> BinaryIO:
    try:
        file = path.open("r+b" if length else "wb")
    except OSError as error:
        raise DataError(
            f"cannot continue the predictions in {path}: {error.strerror or error}; {START_OVER}"
        ) from None
    if file.seek(0, os.SEEK_END) < length:
        file.close()
        raise DataError(
            f"{path} is shorter than what was written to it: {START_OVER}, and another file for "
            f"predictions begins with the next example"
        )
    file.truncate(length)
    file.seek(length)
    return file
