"""Create a stream from a folder of images, with one subfolder per class."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from recollect.errors import DataError, InputError
from recollect.streams.arrays import Options, from_arrays
from recollect.streams.reading import with_progress
from recollect.streams.tasks import TaskStream

KINDS = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
Pixels = NDArray[np.uint8]


def from_folder(
    path: Path | str,
    *,
    size: int | tuple[int, int] | None = None,
    name: str | None = None,
    **options: Unpack[Options],
) -> TaskStream:
    """Create a stream from a folder of images with one subfolder per class: `path/cat/1.png`.

    If `path` has the folders `train` and `test`, each with one subfolder per class, these are the
    training and test sets; otherwise a fifth of each class is held out. Classes are numbered in
    alphabetical order. Images are stored as uint8, `[3, H, W]`, or `[1, H, W]` if all are grey.
    Hidden files and files that are not images are ignored.

    Args:
        path: Folder with the images.
        size: Height and width to resize all images to, or one number for both. By default all
            images must have the same size.
        name: Name of the stream (default: the name of the folder).
        options: Options of `from_arrays`: scenario, tasks, class_order, crop, flip and so on.

    >>> import tempfile
    >>> from PIL import Image
    >>> root = Path(tempfile.mkdtemp())
    >>> for place in [f"{kind}/{n}.png" for kind in ("cat", "dog") for n in range(5)]:
    ...     (root / place).parent.mkdir(exist_ok=True)
    ...     Image.new("RGB", (20, 16)).save(root / place)
    >>> stream = from_folder(root, size=8, tasks=2, flip=True)
    >>> stream.shape, stream.task_classes(1), stream.parts(0)
    ((3, 8, 8), (1,), (4,))
    """
    root = Path(path)
    both = (root / "train").is_dir() and (root / "test").is_dir()
    folders = [root / "train", root / "test"] if both else [root]
    classes = _classes(folders[0])
    if classes in (["train"], ["test"]):
        other = "test" if classes == ["train"] else "train"
        raise DataError(
            f"{root} has {classes[0]} and no {other}: add that folder, or give "
            f"{root / classes[0]}, of which a fifth of every class is then held out"
        )
    if both and (unknown := sorted(set(_classes(folders[1])) - set(classes))):
        raise DataError(f"{folders[1]} has classes that {folders[0]} lacks: {', '.join(unknown)}")
    files = [
        [(file, number) for number, each in enumerate(classes) for file in _images(folder / each)]
        for folder in folders
    ]
    for folder, found in zip(folders, files, strict=True):
        if not found:
            raise DataError(f"there are no images in the folders of {folder} ({', '.join(KINDS)})")
    shape = _size(size)
    grey = all(_is_grey(file) for found in files for file, _ in found)
    sets = [(_read(found, shape, grey), np.array([y for _, y in found])) for found in files]
    x, y = sets[0]
    return from_arrays(
        x, y, test=sets[1] if both else None, name=name or root.resolve().name, **options
    )


def _classes(folder: Path) -> list[str]:
    try:
        found = sorted(e.name for e in folder.iterdir() if e.is_dir() and e.name[0] != ".")
    except OSError as error:
        raise DataError(f"cannot read {folder}: {error.strerror or error}") from None
    if not found:
        raise DataError(f"{folder} has no subfolders: there must be one of images for each class")
    return found


def _images(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    found = (file for file in folder.rglob("*") if file.suffix.lower() in KINDS)
    return sorted(file for file in found if file.is_file() and file.name[0] != ".")


def _size(size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    pair = (size, size) if isinstance(size, int) else tuple(size)
    if len(pair) != 2 or not all(isinstance(side, int) and side > 0 for side in pair):
        raise InputError(f"size must be (height, width) or one number for both, not {size!r}")
    return pair


def _read(files: list[tuple[Path, int]], size: tuple[int, int] | None, grey: bool) -> Pixels:
    """Read all images, `[N, C, H, W]`."""
    first = _pixels(files[0][0], size, grey)
    x = np.empty((len(files), *first.shape), np.uint8)
    for number, (file, _) in enumerate(with_progress(files, files, "images")):
        pixels = _pixels(file, size, grey)
        if pixels.shape != first.shape:
            ours, theirs = (f"{h}x{w}" for _, h, w in (pixels.shape, first.shape))
            raise DataError(
                f"{file} has {ours} pixels, and {files[0][0].name} has {theirs}: pass size=, to "
                "which all are resized"
            )
        x[number] = pixels
    return x


def _is_grey(file: Path) -> bool:
    with _opened(file) as image:
        return image.mode in ("1", "L", "LA")


def _pixels(file: Path, size: tuple[int, int] | None, grey: bool) -> Pixels:
    with _opened(file) as image:
        shown = image.convert("L" if grey else "RGB")
        if size is not None:
            shown = shown.resize(size[::-1], _pillow().Resampling.BILINEAR)
        pixels = np.asarray(shown, np.uint8)
    return pixels[None] if grey else pixels.transpose(2, 0, 1)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    pillow = _pillow()
    try:
        with warnings.catch_warnings():
            # Pillow only warns about images of hundreds of megabytes.
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(file) as image:
                yield image
    except Exception as error:  # decoders raise undocumented exceptions for damaged files
        raise DataError(f"{file} is not an image that can be read ({error})") from None


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError:
        raise DataError(
            "images are read by Pillow, which is not installed: run pip install pillow"
        ) from None
    return Image
