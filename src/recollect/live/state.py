"""The files of a live stream: the folder with its state, and the predictions."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np

from recollect.errors import DataError, InputError
from recollect.feeds import Feed
from recollect.feeds.record import Layout
from recollect.files import check_new, check_writable, write_bytes
from recollect.learner import Learner

FACTS, VERSIONS, CHECKPOINTS = "stream.json", "versions.json", "*.recollect"
WRITTEN = "predictions.json"
FORMAT = 1
START_OVER = "fresh=True starts over"


class SettingsError(InputError):
    """A saved state cannot be continued: the setting `name` was `before`, and is `now`."""

    def __init__(self, folder: Path, name: str, before: Any, now: Any) -> None:
        super().__init__(
            f"the state in {folder} was saved with {name}={before!r}, not with {name}={now!r}: "
            f"{START_OVER}, and another folder keeps both"
        )
        self.folder, self.name, self.before, self.now = folder, name, before, now


@final
class StateFolder:
    """A folder with the checkpoints of a learner and the settings of its stream.

    The learner locks the folder. `stream.json` has the settings and the layout of the stream, and
    never changes. The positions in the sources are in every checkpoint, so that they always match
    the learner. `predictions.json` lists the prediction files that this stream created, which it
    may overwrite.
    """

    def __init__(self, path: Path) -> None:
        if path.is_file():
            raise InputError(f"the state is saved in a folder, but {path} is a file")
        self.path = path

    def saved(self, settings: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what `begin` wrote, or None without a checkpoint.

        Raises `SettingsError` if the settings differ.
        """
        if not any(self.path.glob(CHECKPOINTS)):
            return None
        try:
            found = self._facts()
            if found["format"] != FORMAT or not {"layout", "shape", "image"} <= {*found}:
                raise ValueError
            before = {name: found["settings"].get(name) for name in settings}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise DataError(
                f"{self.path} has checkpoints but no readable {FACTS} with their settings: "
                f"{START_OVER}, and another folder keeps both"
            ) from None
        for name, now in settings.items():
            if before[name] != now:
                raise SettingsError(self.path, name, before[name], now)
        return found

    def settings(self) -> dict[str, Any]:
        """Return the settings of the saved checkpoints; empty if there are none."""
        try:
            found = self._facts()["settings"]
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return found if isinstance(found, dict) and any(self.path.glob(CHECKPOINTS)) else {}

    def resumed(
        self, settings: Mapping[str, Any], feed: Feed, make: Callable[[np.ndarray], Learner]
    ) -> Learner | None:
        """Lock the folder and load its newest checkpoint, with the feed's layout; None without one.

        The loaded learner has the network and the arguments of the one that `make` creates.
        """
        saved = self.saved(settings)
        if saved is None:
            return None
        like = np.zeros(saved["shape"], np.uint8 if saved["image"] else np.float32)
        feed.continue_from(saved["layout"], None)  # `make` uses it
        learner = make(like).resumed(self.path)
        if learner is None:
            raise DataError(f"the checkpoints in {self.path} are gone: run it again")
        if self.saved(settings) != saved:
            learner.release_folder()
            raise DataError(f"another process has just changed {self.path}: run it again")
        return learner

    def remove_all_but(self, newest: Path) -> None:
        """Remove the other checkpoints."""
        for path in self.path.glob(CHECKPOINTS):
            if path.name != newest.name:
                with _naming_errors(path):
                    path.unlink(missing_ok=True)

    def begin(self, settings: Mapping[str, Any], layout: Layout | None, x: np.ndarray) -> None:
        """Start over: remove older checkpoints, and write the settings of the new ones."""
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

    def check_output(self, output: Path | BinaryIO | None, force: bool) -> None:
        """Raise an error if `output` would overwrite a file that this stream did not create."""
        if isinstance(output, Path) and str(output) not in self._written():
            check_new(output, force)

    def opened(
        self, output: Path | BinaryIO | None, lengths: Mapping[str, int] | None = None
    ) -> Predictions:
        """Open the predictions for writing, after the given lengths in bytes."""
        before = self._written()
        if isinstance(output, Path) and str(output) not in before:  # noted before it is created
            text = json.dumps([*before, str(output)], indent=1)
            with _naming_errors(self.path / WRITTEN):
                write_bytes(self.path / WRITTEN, text.encode())
        return Predictions(output, lengths)

    def _facts(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / FACTS).read_text("utf-8"))
        return found

    def _written(self) -> list[str]:
        try:
            found = json.loads((self.path / WRITTEN).read_text("utf-8"))
        except (OSError, ValueError):
            return []
        return found if isinstance(found, list) else []


@final
class Saving:
    """Decide when to save: after a number of seconds, or of `steps`; None means never."""

    def __init__(self, seconds: float | None, steps: int | None) -> None:
        self._seconds, self._steps = seconds, steps
        self.unsaved, self._at = 0, 0.0

    def count(self) -> None:
        """Count a batch as not saved."""
        self.unsaved += 1

    def done(self) -> None:
        """Record that everything is saved."""
        self.unsaved, self._at = 0, time.monotonic()

    def due(self) -> bool:
        """Return whether to save now."""
        if self._steps is not None:
            return self.unsaved >= self._steps
        return self._seconds is not None and time.monotonic() - self._at >= self._seconds


@final
class Predictions:
    """Write a JSON line for every example to a file, an open binary stream, or nowhere (None).

    A file that is continued is first truncated to its length when the state was saved; later lines
    are written again. `lengths` has the length of every file so far.
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
        """Write lines and flush them."""
        if self._file is not None:
            # A column of Parquet may be a time, which JSON does not support.
            texts = (json.dumps(line, ensure_ascii=False, default=str) for line in lines)
            text = "".join(f"{each}\n" for each in texts)
            with _naming_errors(self._path):
                # A lone surrogate becomes its JSON escape.
                self._file.write(text.encode("utf-8", "backslashreplace"))
                self._file.flush()

    def sync(self) -> None:
        """Sync the file to disk and record its length."""
        if self._file is not None and self._path is not None:
            with _naming_errors(self._path):
                os.fsync(self._file.fileno())
            self.lengths[str(self._path)] = self._file.tell()

    def close(self) -> None:
        """Close the file; a stream that the caller opened stays open."""
        if self._file is not None and self._path is not None:
            # Everything was flushed, or the failed write has already raised an error.
            with suppress(OSError):
                self._file.close()


def output_of(
    predictions: str | Path | BinaryIO | None, feeds: Sequence[Feed]
) -> Path | BinaryIO | None:
    """Return the destination of predictions; raise an error if it is unwritable or a source."""
    if not isinstance(predictions, str | Path):
        return predictions
    path = Path(predictions).absolute()
    check_writable(predictions)
    if path in {Path(source).absolute() for feed in feeds for source in feed.sources}:
        raise InputError(
            f"predictions would overwrite the source {path}: give another file for predictions"
        )
    return path


@contextmanager
def _naming_errors(path: Path | None) -> Iterator[None]:
    """Turn an `OSError` into a `DataError` that names the file; errors of a pipe (None) pass."""
    try:
        yield
    except OSError as error:
        if path is None:
            raise
        raise DataError(f"cannot write {path}: {error.strerror or error}") from None


def _opened(path: Path, length: int) -> BinaryIO:
    try:
        file = path.open("r+b" if length else "wb")
    except OSError as error:
        reason = error.strerror or error
        if not length:
            raise DataError(f"cannot write {path}: {reason}") from None
        raise DataError(
            f"cannot continue the predictions in {path}: {reason}; {START_OVER}"
        ) from None
    if file.seek(0, os.SEEK_END) < length:
        file.close()
        raise DataError(
            f"{path} is shorter than the predictions written before: {START_OVER}, and another "
            f"file for predictions begins with the next example"
        )
    file.truncate(length)
    file.seek(length)
    return file
