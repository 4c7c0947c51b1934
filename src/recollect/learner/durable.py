"""How a learner is saved, and how it has a folder of checkpoints to itself."""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from torch import nn

from recollect.errors import DataError, InputError, RecollectError
from recollect.learner import snapshot
from recollect.learner.checkpoints import Checkpoints
from recollect.learner.image import Image, Writing
from recollect.learner.labels import Labels
from recollect.learner.predictor import Predictor
from recollect.learner.settings import Settings
from recollect.learner.versions import Version, versions_in

__all__ = ["Durable"]


class Durable(Predictor):
    """A predictor with files: saved by itself, or as versions in a folder that only it uses."""

    def __init__(self, module: nn.Module, settings: Settings, labels: Labels, window: int) -> None:
        super().__init__(module, settings, labels, window)
        self.notes: dict[str, Any] = {}
        self._checkpoints = Checkpoints()
        self._writing = Writing()
        self._closed = False

    @property
    def saved(self) -> int | None:
        """How many examples are on the disk, in a file or a checkpoint; None if none are."""
        return self._checkpoints.saved

    @property
    def checkpoint_folder(self) -> Path | None:
        """The folder that checkpoints go into, if there is one."""
        return self._checkpoints.folder

    def save(self, path: str | Path) -> None:
        """Write everything to one file: whole or not at all, and on the disk when this returns."""
        with ExitStack() as stack:
            with self._lock:
                image, seen = self._image(), self.seen
                stack.enter_context(self._writing.one_more())
            image.write(Path(path))
        self._checkpoints.note_saved(seen)

    def checkpoint(
        self, folder: str | Path | None = None, *, pin: bool = False, wait: bool = True
    ) -> Path:
        """Save into the folder of checkpoints now; the file. A `folder` becomes that folder.

        A version with `pin` is not removed when newer ones come. Without `wait` it is written in
        the background, as soon as one that is being written is done: `flush` waits for it.
        """
        self._check_open()
        with self._lock:
            if folder is not None:
                self._checkpoints.use(Path(folder))
            return self._checkpoints.save(self._image, self.seen, wait=wait, pin=pin)

    def pin(self, version: str | Path, *, pinned: bool = True) -> None:
        """Have a version, by its file in the folder of checkpoints, never be removed there.

        With `pinned=False` it is removed again when it is old.
        """
        with self._lock:
            self._checkpoints.wait()
            self._checkpoints.pin(Path(version), pinned=pinned)

    @staticmethod
    def versions(folder: str | Path) -> list[Version]:
        """The saved states in a folder of checkpoints: the one that `resume` takes comes first."""
        return versions_in(Path(folder))

    def flush(self) -> None:
        """Have all checkpoints that were due on the disk; a `DataError` if one failed."""
        with self._lock:
            self._checkpoints.wait()
            self._checkpoints.raise_failure()
            if self._checkpoints.wanted:
                self._checkpoints.save(self._image, self.seen, wait=True)

    def use_folder(self, folder: str | Path) -> None:
        """Have the checkpoints go into a folder, which is locked at once; another is released."""
        self._check_open()
        with self._lock:
            self._checkpoints.use(Path(folder))

    def release_folder(self) -> None:
        """Have checkpoints that were due on the disk, and go on without a folder."""
        try:
            self.flush()
        finally:
            with self._lock:
                self._checkpoints.release()

    def close(self) -> None:
        """Have checkpoints that were due on the disk, release the folder, and learn no more.

        It predicts as before. What was learned since the last checkpoint is not saved by this.
        """
        self._closed = True
        self.release_folder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _use(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        weakref.finalize(self, checkpoints.let_go)

    def _packed(self) -> bytes:
        return snapshot.packed(self._settings, self._now, self.notes)

    def _image(self) -> Image:
        return snapshot.image_of(self._settings, self._now, self.notes)

    def _checkpoint_if_due(self) -> None:
        try:
            self._checkpoints.raise_failure()
            if self._checkpoints.due(self.steps):
                self._checkpoints.save(self._image, self.seen, wait=False)
        except RecollectError as error:  # one that is not of this step
            raise DataError(f"the step was learned, but not saved: {error}") from None

    def _check_open(self) -> None:
        if self._closed:
            raise InputError("this learner is closed: Learner.resume goes on with its folder")
