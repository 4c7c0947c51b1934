"""CIFAR-100 is tested in all its layouts on six pictures of three classes."""

from __future__ import annotations

import hashlib
import io
import struct
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tests.streams.data.some_files import described, fill, ignore

from recollect.errors import DataError
from recollect.streams.data import CATALOGUE, Dataset, cifar100
from recollect.streams.data.conversions import locate, obtain

CLASSES = ("apple", "aquarium_fish", "baby")
X = np.random.default_rng(0).integers(0, 256, (9, 3, 32, 32), dtype=np.uint8)
Y = np.array([2, 0, 1, 0, 2, 1, 1, 0, 2], dtype=np.uint8)  # six to learn, three to test


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def in_order(x: NDArray[np.uint8], y: NDArray[np.uint8]) -> list[int]:
    return sorted(range(len(y)), key=lambda i: (y[i], md5(x[i].tobytes())))


TRAIN, TEST = in_order(X[:6], Y[:6]), [6 + i for i in in_order(X[6:], Y[6:])]


def pickled(x: NDArray[np.uint8], y: NDArray[np.uint8]) -> bytes:
    """Like the published files: fine and coarse labels, names and rows of bytes."""
    fine = b"".join(b"K" + bytes([label]) for label in y)
    size = bytes([len(y)])
    return b"".join(
        (
            b"\x80\x02}(U\x0bfine_labels](" + fine + b"eU\x0dcoarse_labels](" + fine + b"e",
            b"U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n",
            b"K\x00\x85U\x01b\x87R(K\x01K" + size + b"M\x00\x0c\x86cnumpy\ndtype\n",
            b"U\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89",
            b"T" + struct.pack("<i", x.size) + x.tobytes() + b"tbu.",
        )
    )


def archive(files: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, content in {**files, "meta": b"", "file.txt~": b""}.items():
            info = tarfile.TarInfo(f"cifar-100-python/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


def png(pixels: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels.transpose(1, 2, 0)).save(file, "PNG")
    return file.getvalue()


PICKLED = {"train": pickled(X[:6], Y[:6]), "test": pickled(X[6:], Y[6:])}
ARCHIVE = {"cifar-100-python.tar.gz": archive(PICKLED)}
FOLDERS = {
    f"{'train' if i < 6 else 'test'}/{CLASSES[Y[i]]}/some_s_{i:06}.png": png(X[i]) for i in range(9)
}


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CIFAR-100 of six and three pictures, nowhere yet; returns the cache."""
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RECOLLECT_OFFLINE", "1")
    known = {
        "train_x": md5(X[TRAIN].tobytes()),
        "train_y": md5(Y[TRAIN].tobytes()),
        "test_x": md5(X[TEST].tobytes()),
        "test_y": md5(Y[TEST].tobytes()),
    }
    layouts = {
        replace(collection, files=described(files)): parse
        for (collection, parse), files in zip(
            cifar100.CIFAR100.layouts.items(), (PICKLED, ARCHIVE), strict=True
        )
    }
    few = replace(cifar100.CIFAR100, train=6, test=3, classes=3, md5=known, layouts=layouts)
    monkeypatch.setattr(cifar100, "CIFAR100", few)
    return tmp_path / "cache"


def is_whole(data: Dataset) -> bool:
    return (
        np.array_equal(data.train_x.numpy(), X[TRAIN])
        and np.array_equal(data.test_x.numpy(), X[TEST])
        and data.train_y.tolist() == [0, 0, 1, 1, 2, 2]
        and data.test_y.tolist() == [0, 1, 2]
    )


@pytest.mark.parametrize(
    ("subfolder", "files"),
    [
        ("", PICKLED),
        ("cifar-100-python", PICKLED),
        ("cifar100/cifar-100-python", PICKLED),
        ("", ARCHIVE),
        ("cifar100", ARCHIVE),
        ("", FOLDERS),
        ("CIFAR-100-dataset", FOLDERS),
    ],
)
def test_every_source_gives_one_data_set(
    tmp_path: Path, small: Path, subfolder: str, files: dict[str, bytes]
) -> None:
    fill(tmp_path / "mine" / subfolder, files)
    finding = locate(cifar100.CIFAR100, tmp_path / "mine")
    assert (finding.where, finding.problem) == ("folder, to be converted", None)
    assert is_whole(obtain(cifar100.CIFAR100, tmp_path / "mine", ignore))
    assert [path.name for path in small.iterdir()] == ["cifar100.safetensors"]
    assert is_whole(obtain(cifar100.CIFAR100, None, ignore)), "from the cache"


def test_folders_of_other_classes_are_not_cifar100(tmp_path: Path) -> None:
    fill(tmp_path / "mine", {"train/cat/a.png": png(X[0]), "test/cat/b.png": png(X[1])})
    assert locate(cifar100.CIFAR100, tmp_path / "mine").where == "not here"


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("train/apple/some_s_000001.png", "apple has 1 PNG files and 2 were expected"),
        ("test/baby/some_s_000008.png", "baby has 0 PNG files and 1 were expected"),
    ],
)
def test_incomplete_folders_are_refused(tmp_path: Path, gone: str, message: str) -> None:
    mine = fill(tmp_path / "mine", FOLDERS)
    (mine / gone).unlink()
    assert message in str(locate(cifar100.CIFAR100, mine).problem)
    with pytest.raises(DataError, match=message):
        obtain(cifar100.CIFAR100, mine, ignore)


def test_a_missing_class_is_refused(tmp_path: Path) -> None:
    mine = fill(tmp_path / "mine", {n: c for n, c in FOLDERS.items() if "baby" not in n})
    with pytest.raises(DataError, match="has 2 folders and 3 were expected"):
        obtain(cifar100.CIFAR100, mine, ignore)


def test_another_picture_is_refused(tmp_path: Path) -> None:
    name = "train/apple/some_s_000001.png"
    mine = fill(tmp_path / "mine", {**FOLDERS, name: png(255 - X[1])})
    with pytest.raises(DataError, match="holds another data set than cifar100"):
        obtain(cifar100.CIFAR100, mine, ignore)


def test_the_catalogue_knows_it() -> None:
    known = CATALOGUE["cifar100"]
    assert (known.classes, known.image, known.train, known.test) == (
        100, (3, 32, 32), 50_000, 10_000,
    )  # fmt: skip
