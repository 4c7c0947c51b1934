"""Read folders of images with one subfolder per class."""

from __future__ import annotations

import os
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from recollect.errors import DataError
from recollect.feeds.lines import POLL
from recollect.feeds.record import Faults, Layout, Malformed, Position, Record, position_parts

KINDS = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
SETTLED = 0.5


@final
@dataclass
class ImageFolder:
    """Read images as `folder/class/image.png`: the name of the subfolder is the label.

    Images are read in the `order` of their modification time or of their names. All are converted
    to greyscale or to colour like the first one, and must have its size unless they are resized to
    `size` (height, width). Images outside a subfolder have no label. The `followed` folder is
    polled; a new image is read once it has not changed for half a second.
    """

    order: Literal["time", "name"] = "time"
    size: tuple[int, int] | None = None
    followed: str | None = None
    faults: Faults = field(default_factory=Faults)
    layout: Layout | None = None
    table: None = None
    columns: None = None

    def read(self, source: str, position: Position | None = None) -> Iterator[Record | None]:
        """Yield the images after a position: the modification time (or name) and path of one."""
        position_parts(source, position, int if self.order == "time" else str, str)
        while True:
            for key, path in self._listed(Path(source), position, source == self.followed):
                position = (key, path)
                try:
                    x = self._pixels(Path(source) / path)
                except Malformed as why:
                    self.faults.meet(str(Path(source) / path), why)
                else:
                    folder = str(Path(path).parent)
                    yield Record(x, None if folder == "." else folder, source, position)
            if source != self.followed:
                return
            yield None
            time.sleep(POLL)

    def _listed(
        self, root: Path, after: Position | None, growing: bool
    ) -> list[tuple[int | str, str]]:
        found = [
            (self._key(entry), str(Path(entry.path).relative_to(root)))
            for entry in files_in(root)
            if entry.name.lower().endswith(KINDS) and not (growing and _is_recent(entry))
        ]
        return sorted(each for each in found if after is None or each > after)

    def _key(self, entry: os.DirEntry[str]) -> int | str:
        return entry.stat().st_mtime_ns if self.order == "time" else entry.name

    def _pixels(self, path: Path) -> NDArray[np.uint8]:
        """Decode an image as `[channels, height, width]`."""
        from PIL import Image

        try:
            with warnings.catch_warnings():
                # Pillow only warns about an image that would take hundreds of megabytes.
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                with Image.open(path) as image:
                    image.load()
                    grey = image.mode in ("1", "L", "LA")
                    if self.layout is not None:
                        grey = self.layout["shape"][0] == 1
                    shown: Any = image.convert("L" if grey else "RGB")
        except Exception as error:  # the errors that decoders raise are not documented
            raise Malformed(f"the image cannot be decoded ({error})") from None
        if self.size is not None:
            shown = shown.resize(self.size[::-1], Image.Resampling.BILINEAR)
        pixels = np.asarray(shown, dtype=np.uint8)
        pixels = pixels[None] if grey else np.ascontiguousarray(pixels.transpose(2, 0, 1))
        if self.layout is None:
            self.layout = {"shape": [*pixels.shape]}
        _, height, width = self.layout["shape"]
        if pixels.shape[1:] != (height, width):
            seen = f"{pixels.shape[1]}x{pixels.shape[2]}"
            raise Malformed(
                f"it has {seen} pixels, but the first image has {height}x{width}: "
                f"size=(height, width) resizes all images"
            )
        return pixels


def files_in(root: Path) -> list[os.DirEntry[str]]:
    """Return the files of a folder and its subfolders, without hidden ones."""
    try:
        folders = [root, *(Path(e.path) for e in os.scandir(root) if _is_kind(e, stat.S_ISDIR))]
        return [
            entry
            for folder in folders
            for entry in os.scandir(folder)
            if entry.name[0] != "." and _is_kind(entry, stat.S_ISREG)
        ]
    except OSError as error:
        raise DataError(f"cannot read {root}: {error.strerror or error}") from None


def _is_kind(entry: os.DirEntry[str], kind: Callable[[int], bool]) -> bool:
    """Return whether an entry, or the target of a link, is of a kind; a broken link is not."""
    try:
        return kind(entry.stat().st_mode)
    except OSError:  # a broken link, or it was removed in the meantime
        return False


def _is_recent(entry: os.DirEntry[str]) -> bool:
    return 0 <= time.time() - entry.stat().st_mtime < SETTLED
