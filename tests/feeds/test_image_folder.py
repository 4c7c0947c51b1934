"""Folders of images by class, in the order of their arrival."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from recollect.errors import DataError
from recollect.feeds import Faults, ImageFolder


def put(path: Path, value: int = 0, size: tuple[int, int] = (4, 6), mode: str = "L",
        when: float | None = None) -> None:  # fmt: skip
    """An image of one colour, height and width as given, as if it had come at that time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    colour = value if mode == "L" else (value, 0, 255)
    Image.new(mode, size[::-1], colour).save(path)
    if when is not None:
        os.utime(path, (when, when))


def seen(reader: ImageFolder, folder: Path) -> list[tuple[str | None, int]]:
    return [(str(r.label) if r.label is not None else None, int(r.x[0, 0, 0]))
            for r in reader.read(str(folder)) if r is not None]  # fmt: skip


def test_by_time_then_by_path(tmp_path: Path) -> None:
    put(tmp_path / "cat" / "b.png", 1, when=30)
    put(tmp_path / "dog" / "a.png", 2, when=10)
    put(tmp_path / "cat" / "a.png", 3, when=20)
    put(tmp_path / "ant" / "z.png", 4, when=20)
    assert seen(ImageFolder(), tmp_path) == [("dog", 2), ("ant", 4), ("cat", 3), ("cat", 1)]


def test_by_name_across_classes(tmp_path: Path) -> None:
    put(tmp_path / "cat" / "003.png", 1, when=10)
    put(tmp_path / "dog" / "001.png", 2, when=20)
    put(tmp_path / "cat" / "002.bmp", 3, when=30)
    assert seen(ImageFolder("name"), tmp_path) == [("dog", 2), ("cat", 3), ("cat", 1)]


def test_pixels_are_bytes_with_channels_first(tmp_path: Path) -> None:
    put(tmp_path / "grey" / "a.png", 7)
    (record,) = [r for r in ImageFolder().read(str(tmp_path)) if r]
    assert record.x.shape == (1, 4, 6)
    assert record.x.dtype == np.uint8
    assert (record.x == 7).all()


def test_the_first_image_says_grey_or_coloured(tmp_path: Path) -> None:
    put(tmp_path / "a" / "1.png", 9, mode="RGB", when=1)
    put(tmp_path / "a" / "2.png", 9, mode="L", when=2)
    shapes = [r.x.shape for r in ImageFolder().read(str(tmp_path)) if r]
    assert shapes == [(3, 4, 6)] * 2
    first = next(r for r in ImageFolder().read(str(tmp_path)) if r)
    assert first.x[:, 0, 0].tolist() == [9, 0, 255]


def test_images_in_no_class_have_no_label_and_other_files_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "new.png", 5)
    put(tmp_path / "cat" / ".half.png", 6)
    (tmp_path / "cat" / "notes.txt").write_text("no image")
    assert seen(ImageFolder(), tmp_path) == [(None, 5)]


def test_sizes_must_agree_unless_one_is_given(tmp_path: Path) -> None:
    put(tmp_path / "a" / "1.png", 1, when=1)
    put(tmp_path / "a" / "2.png", 2, (5, 5), when=2)
    with pytest.raises(
        DataError, match=r"2\.png: it has 5x5 pixels, .* has 4x6: size=\(height, width\)"
    ):
        seen(ImageFolder(), tmp_path)
    shapes = [r.x.shape for r in ImageFolder(size=(3, 2)).read(str(tmp_path)) if r]
    assert shapes == [(1, 3, 2)] * 2


def test_a_damaged_image_is_named_or_left_out(tmp_path: Path) -> None:
    put(tmp_path / "a" / "1.png", 1, when=1)
    whole = (tmp_path / "a" / "1.png").read_bytes()
    (tmp_path / "a" / "2.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "a" / "3.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"2\.png: the image cannot be decoded"):
        seen(ImageFolder(), tmp_path)
    skipping = ImageFolder(faults=Faults(skip=True))
    assert seen(skipping, tmp_path) == [("a", 1)]
    assert skipping.faults.count == 2


def test_reading_continues_with_what_came_later(tmp_path: Path) -> None:
    for number in range(4):
        put(tmp_path / f"class{number % 2}" / f"{number}.png", number, when=10 + number)
    first = ImageFolder()
    positions = [r.position for r in first.read(str(tmp_path)) if r]
    put(tmp_path / "class2" / "later.png", 9, when=99)
    rest = [r for r in ImageFolder(layout=first.layout).read(str(tmp_path), positions[1]) if r]
    assert [int(r.x[0, 0, 0]) for r in rest] == [2, 3, 9]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot read .*nowhere: No such file"):
        seen(ImageFolder(), tmp_path / "nowhere")


def test_a_followed_folder_shows_what_arrives_when_it_is_whole(tmp_path: Path) -> None:
    put(tmp_path / "cat" / "1.png", 1, when=time.time() - 60)
    whole = (tmp_path / "cat" / "1.png").read_bytes()

    def arrive() -> None:
        path = tmp_path / "dog" / "2.png"
        path.parent.mkdir()
        for end in range(0, len(whole), 16):
            with path.open("ab") as file:
                file.write(whole[end : end + 16])
            time.sleep(0.02)

    writer = threading.Thread(target=arrive)
    found, silences = [], 0
    for record in ImageFolder(followed=str(tmp_path)).read(str(tmp_path)):
        if record is None:
            silences += 1
            if silences == 1:
                writer.start()
        else:
            found.append(record.label)
        if found == ["cat", "dog"]:
            break
        assert silences < 100, "it never came"
    writer.join()
