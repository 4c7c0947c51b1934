"""Saving a learner to a file or to a folder of checkpoints."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from torch import nn

from recollect.errors import DataError, InputError, RecollectError
from recollect.learner.predictor import Predictor
from recollect.learner.saving import snapshot
from recollect.learner.saving.checkpoints import Checkpoints
from recollect.learner.saving.image import Image, Writing
from recollect.learner.saving.notes import Notes
from recollect.learner.saving.versions import Version, versions_in
from recollect.learner.settings import Settings
from recollect.learner.targets.answers import Answers


class Durable(Predictor):
    """Adds saving and checkpoints to a learner."""

    def __init__(self, module: nn.Module, settings: Settings, labels: Answers, window: int) -> None:
        super().__init__(module, settings, labels, window)
        self._notes = Notes()
        self._checkpoints = Checkpoints()
        self._writing = Writing()
        self._closed = False

    @property
    def notes(self) -> dict[str, Any]:
        """Plain data and tensors of yours that are saved with the learner."""
        return self._notes

    @notes.setter
    def notes(self, notes: Mapping[str, Any]) -> None:
        self._notes = Notes(notes)

    @property
    def saved(self) -> int | None:
        """Number of examples in the newest file or checkpoint saved; None if none was."""
        return self._checkpoints.saved

    @property
    def checkpoint_folder(self) -> Path | None:
        """The folder of checkpoints, or None."""
        return self._checkpoints.folder

    def save(self, path: str | Path) -> None:
        """Save the whole learner to a file, atomically; it is on disk when this returns.

        Args:
            path: The file. `Learner.load` reads it.

        Raises:
            DataError: The file cannot be written.
            InputError: A label cannot be written to a file.
        """
        with ExitStack() as stack:
            with self._lock:
                image, seen = self._image(), self.seen
                stack.enter_context(self._writing.one_more())
            image.write(Path(path))
        self._checkpoints.note_saved(seen)

    def checkpoint(
        self, folder: str | Path | None = None, *, pin: bool = False, wait: bool = True
    ) -> Path:
        """Save a checkpoint now.

        Args:
            folder: The folder of checkpoints from now on; by default the present one.
            pin: Whether to protect this version from deletion when newer ones are saved.
            wait: Whether to wait until the file is on disk. If false, it is written in the
                background; `flush` waits for it.

        Returns:
            The path of the checkpoint.

        Raises:
            InputError: There is no folder, or another learner uses it.
            DataError: The file cannot be written.
        """
        self._check_open()
        with self._lock:
            if folder is not None:
                self._checkpoints.use(Path(folder))
            return self._checkpoints.save(self._image, self.seen, wait=wait, pin=pin)

    def pin(self, version: str | Path, *, pinned: bool = True) -> None:
        """Protect a checkpoint from deletion when newer ones are saved.

        Args:
            version: Its file in the folder of checkpoints.
            pinned: False removes the protection.
        """
        with self._lock:
            self._checkpoints.wait()
            self._checkpoints.pin(Path(version), pinned=pinned)

    @staticmethod
    def versions(folder: str | Path) -> list[Version]:
        """List the checkpoints of a folder, starting with the one that `resume` loads."""
        return versions_in(Path(folder))

    def flush(self) -> None:
        """Wait until all checkpoints that are due are on disk.

        Raises:
            DataError: A checkpoint could not be written.
        """
        with self._lock:
            self._checkpoints.wait()
            self._checkpoints.raise_failure()
            if self._checkpoints.wanted:
                self._checkpoints.save(self._image, self.seen, wait=True)

    def use_folder(self, folder: str | Path) -> None:
        """Lock a folder and save checkpoints there from now on; the previous one is unlocked."""
        self._check_open()
        with self._lock:
            self._checkpoints.use(Path(folder))

    def release_folder(self) -> None:
        """Wait for checkpoints that are due, unlock the folder and continue without one."""
        try:
            self.flush()
        finally:
            with self._lock:
                self._checkpoints.release()

    def close(self) -> None:
        """Wait for checkpoints that are due, unlock the folder and stop learning.

        The learner can still predict. This does not save what was learned since the last
        checkpoint: call `checkpoint` before.
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
        return snapshot.packed(self._settings, self._now, self._notes)

    def _image(self) -> Image:
        return snapshot.image_of(self._settings, self._now, self._notes)

    def _checkpoint_if_due(self) -> None:
        try:
            self._checkpoints.raise_failure()
            if self._checkpoints.due(self.steps):
                self._checkpoints.save(self._image, self.seen, wait=False)
        except RecollectError as error:  # of a checkpoint, not of this step
            raise DataError(f"the step was learned, but not saved: {error}") from None

    def _check_open(self) -> None:
        if self._closed:
            raise InputError(
                "this learner is closed and cannot learn: continue with Learner.resume(folder, ...)"
            )
