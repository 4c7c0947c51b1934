"""Streams of image folders and of torch's data sets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from recollect import DataError, InputError, from_dataset, from_folder
from recollect.streams import reading
from recollect.testing import check_stream


def write(path: Path, value: int, mode: str = "RGB", size: tuple[int, int] = (6, 5)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, value if mode == "L" else (value, 0, 0)).save(path)


def folder(root: Path, mode: str = "RGB", classes: str = "abcd") -> Path:
    for number, name in enumerate(classes):
        for picture in range(5):
            write(root / name / f"{picture}.png", 10 * number + picture, mode)
    return root


@pytest.mark.parametrize(("mode", "shape"), [("RGB", (3, 5, 6)), ("L", (1, 5, 6))])
def test_folders_are_classes(tmp_path: Path, mode: str, shape: tuple[int, ...]) -> None:
    (folder(tmp_path, mode) / "a" / "notes.txt").write_text("not an image")
    stream = from_folder(tmp_path, crop=1)
    assert (stream.shape, stream.dtype, stream.tasks) == (shape, torch.uint8, 2)
    assert stream.name == tmp_path.name
    for x, y in ((stream.train_x, stream.train_y), (stream.test_x, stream.test_y)):
        assert torch.equal(x[:, 0, 0, 0] // 10, y)
    assert (len(stream.train_y), len(stream.test_y)) == (16, 4)
    check_stream(stream)


def test_train_and_test_are_two_sets(tmp_path: Path) -> None:
    folder(tmp_path / "train")
    folder(tmp_path / "test", classes="abcd")
    write(tmp_path / "test" / "d" / "more.png", 35)
    stream = from_folder(tmp_path, name="mine")
    assert (len(stream.train_y), len(stream.test_y), stream.name) == (20, 21, "mine")
    write(tmp_path / "test" / "e" / "0.png", 0)
    with pytest.raises(DataError, match=r"test has classes that .*train lacks: e"):
        from_folder(tmp_path)


def test_images_of_other_sizes_are_resized_or_refused(tmp_path: Path) -> None:
    write(folder(tmp_path) / "b" / "9.png", 19, size=(9, 9))
    with pytest.raises(DataError, match=r"9\.png has 9x9 pixels, and 0\.png has 5x6: pass size="):
        from_folder(tmp_path)
    assert from_folder(tmp_path, size=(4, 7)).shape == (3, 4, 7)
    with pytest.raises(InputError, match="size must be"):
        from_folder(tmp_path, size=0)


def test_a_folder_without_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read"):
        from_folder(tmp_path / "nowhere")
    with pytest.raises(DataError, match="has no subfolders"):
        from_folder(tmp_path)
    (tmp_path / "a").mkdir()
    with pytest.raises(DataError, match="there are no images"):
        from_folder(tmp_path)
    (tmp_path / "a" / "x.png").write_text("no image")
    with pytest.raises(DataError, match=r"x\.png is not an image that can be read"):
        from_folder(tmp_path)


def test_without_pillow_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match="run pip install pillow"):
        from_folder(tmp_path)


class Items(Dataset[Any]):
    def __init__(self, *items: Any) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


LABELS = torch.arange(40) % 4


@pytest.mark.parametrize("kind", [torch.tensor, np.array, Image.fromarray])
def test_a_data_set_is_read_once(kind: Any) -> None:
    x = np.random.default_rng(0).integers(0, 256, (40, 5, 6), dtype=np.uint8)
    data = Items(*((kind(each), int(y)) for each, y in zip(x, LABELS, strict=True)))
    stream = from_dataset(data, data, tasks=4, name="mine")
    assert torch.equal(stream.train_x, torch.from_numpy(x))
    assert torch.equal(stream.test_y, LABELS)
    assert (stream.tasks, stream.name) == (4, "mine")


def test_colour_images_have_their_channels_first() -> None:
    picture = Image.new("RGB", (6, 5), (7, 8, 9))
    stream = from_dataset(Items(*((picture, label % 2) for label in range(10))), tasks=2)
    assert stream.shape == (3, 5, 6)
    assert stream.train_x[0, :, 0, 0].tolist() == [7, 8, 9]


def test_tensor_data_sets_hold_a_fifth_out() -> None:
    stream = from_dataset(TensorDataset(torch.rand(40, 3), LABELS))
    assert (stream.parts(0), len(stream.test_y)) == ((16,), 8)


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(())


GOOD = (torch.zeros(3), 0)
REFUSED: dict[str, tuple[Any, str]] = {
    "iterable": (Endless(), "train is a Endless, but a data set with a length"),
    "no data set": (3, "train is a int, but a data set"),
    "empty": (Items(), "train is empty"),
    "no pair": (Items(torch.zeros(3)), "item 0 of train is a Tensor, but a pair"),
    "float label": (Items(GOOD, (torch.zeros(3), 1.0)), "the label of item 1 of train is 1.0"),
    "word label": (Items((torch.zeros(3), "cat")), "is 'cat', but a whole number is expected"),
    "vector label": (Items((torch.zeros(3), torch.zeros(2))), "but a whole number is expected"),
    "example": (Items(({1}, 0)), "the example of item 0 of train is a set"),
    "part": (Items(({"x": "a"}, 0)), "the example of item 0 of train, 'x', is a str"),
    "shape": (Items(GOOD, (torch.zeros(4), 0)), r"item 1 of train is \[4\] of torch.float32"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_in_a_sentence(case: str) -> None:
    data, message = REFUSED[case]
    with pytest.raises(InputError, match=message):
        from_dataset(data)


def test_a_long_reading_shows_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from_dataset(TensorDataset(torch.rand(40, 3), LABELS))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(reading, "PATIENCE", -1.0)
    monkeypatch.setattr(reading, "EVERY", -1.0)
    from_dataset(TensorDataset(torch.rand(40, 3), LABELS))
    assert capsys.readouterr().err.endswith("\rreading the train set: 40 of 40\n")


@pytest.mark.parametrize(("there", "missing"), [("train", "test"), ("test", "train")])
def test_one_of_two_sets_alone_is_not_a_class(there: str, missing: str, tmp_path: Path) -> None:
    (tmp_path / there / "cat").mkdir(parents=True)
    with pytest.raises(DataError, match=rf"has {there} and no {missing}: add that folder, or give"):
        from_folder(tmp_path)
