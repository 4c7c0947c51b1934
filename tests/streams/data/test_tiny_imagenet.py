"""Tiny ImageNet is tested on two classes of three pictures each, and two each to test."""

import hashlib
import io
import shutil
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.streams.data.some_files import described, fill, ignore

from recollect.errors import DataError
from recollect.streams.data import CATALOGUE, Dataset, DataUnavailable, formats, tiny_imagenet
from recollect.streams.data.conversions import locate, obtain
from recollect.streams.data.formats import decode

CLASSES = ["n02", "n01"]  # as in wnids.txt, which is not sorted
VAL = {"val_0.JPEG": "n02", "val_1.JPEG": "n01", "val_2.JPEG": "n01", "val_10.JPEG": "n02"}


def jpeg(seed: int, grey: bool = False) -> bytes:
    shape = (64, 64) if grey else (64, 64, 3)
    pixels = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=20)
    return file.getvalue()


# The numbers 2 and 10 are there because text would sort them the other way round.
TRAIN = {
    f"train/{wnid}/images/{wnid}_{number}.JPEG": jpeg(10 * place + number, grey=number == 2)
    for place, wnid in enumerate(CLASSES)
    for number in (0, 2, 10)
}
TEST = {f"val/images/{name}": jpeg(100 + place) for place, name in enumerate(VAL)}
LISTS = {
    "wnids.txt": "".join(f"{wnid}\n" for wnid in CLASSES).encode(),
    "val/val_annotations.txt": "".join(f"{n}\t{w}\t0\t0\t9\t9\n" for n, w in VAL.items()).encode(),
    "words.txt": b"n01\tgoldfish\n",
    "train/n01/n01_boxes.txt": b"n01_0.JPEG\t0\t0\t9\t9\n",
    "train/.DS_Store": b"",
    "train/n01/images/._n01_0.JPEG": b"",
    "test/images/test_0.JPEG": b"not read",
}
USUAL = TRAIN | TEST | LISTS


def moved(target: Callable[[str, str], str]) -> dict[str, bytes]:
    """The validation set in another layout, without its list."""
    without = {name: data for name, data in USUAL.items() if not name.startswith("val/")}
    return without | {target(VAL[n], n): TEST[f"val/images/{n}"] for n in VAL}


BY_CLASS = moved(lambda wnid, name: f"val/{wnid}/images/{name}")
FLAT = {name.replace("/images/", "/"): data for name, data in BY_CLASS.items()}
LAYOUTS = {"usual": USUAL, "by class": BY_CLASS, "flat": FLAT}


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Tiny ImageNet of six and four pictures, nowhere yet; returns the cache."""
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RECOLLECT_OFFLINE", "1")
    labels = {"train_y": bytes([0, 0, 0, 1, 1, 1]), "test_y": bytes([1, 0, 0, 1])}
    md5 = {name: hashlib.md5(y).hexdigest() for name, y in labels.items()}
    few = replace(tiny_imagenet.TINY_IMAGENET, classes=2, train=6, test=4, md5=md5)
    monkeypatch.setattr(tiny_imagenet, "TINY_IMAGENET", few)
    monkeypatch.setattr(tiny_imagenet, "CLASSES_MD5", hashlib.md5(b"n01\nn02\n").hexdigest())
    monkeypatch.setattr(tiny_imagenet, "MEAN", (0.5, 0.5, 0.5))
    monkeypatch.setattr(tiny_imagenet, "TOLERANCE", 0.05)
    return tmp_path / "cache"


def is_whole(data: Dataset) -> bool:
    """Every picture stands by class and number, or by number, and is decoded as Pillow does."""
    train = [TRAIN[f"train/{w}/images/{w}_{n}.JPEG"] for w in ("n01", "n02") for n in (0, 2, 10)]
    test = [TEST[f"val/images/val_{number}.JPEG"] for number in (0, 1, 2, 10)]
    assert (data.name, data.classes) == ("tiny-imagenet", 2)
    assert data.train_y.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.test_y.tolist() == [1, 0, 0, 1]

    def equal(x: object, files: list[bytes]) -> bool:
        return np.array_equal(np.asarray(x), [decode(each, "picture", 64, 64) for each in files])

    return equal(data.train_x, train) and equal(data.test_x, test)


@pytest.mark.parametrize("root", ["", "tiny-imagenet-200", "tiny-imagenet"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_may_be_laid_out_in_many_ways(
    tmp_path: Path, small: Path, root: str, layout: str
) -> None:
    fill(tmp_path / "mine" / root, LAYOUTS[layout])
    finding = locate(tiny_imagenet.TINY_IMAGENET, tmp_path / "mine")
    assert (finding.where, finding.problem) == ("folder, to be converted", None)
    assert not small.exists(), "looking converts nothing"
    assert is_whole(obtain(tiny_imagenet.TINY_IMAGENET, tmp_path / "mine", ignore))
    assert [path.name for path in small.iterdir()] == ["tiny-imagenet.safetensors"]
    assert is_whole(obtain(tiny_imagenet.TINY_IMAGENET, None, ignore)), "from the cache"


def test_grey_pictures_have_three_equal_channels(tmp_path: Path) -> None:
    x = obtain(tiny_imagenet.TINY_IMAGENET, fill(tmp_path / "mine", USUAL), ignore).train_x
    equal = (x[:, :1] == x).flatten(1).all(1)
    assert equal.tolist() == [False, True, False, False, True, False]


def zipped(files: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tiny-imagenet-200/", b"")
        for name, content in files.items():
            archive.writestr(f"tiny-imagenet-200/{name}", content)
    return file.getvalue()


def known_archive(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    files = described({"tiny-imagenet-200.zip": content})
    layouts = {
        replace(archive, files=files): parse
        for archive, parse in tiny_imagenet.TINY_IMAGENET.layouts.items()
    }
    changed = replace(tiny_imagenet.TINY_IMAGENET, layouts=layouts)
    monkeypatch.setattr(tiny_imagenet, "TINY_IMAGENET", changed)


def test_the_archive_is_read_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = zipped(USUAL)
    known_archive(content, monkeypatch)
    folder = fill(tmp_path / "mine", {"tiny-imagenet-200.zip": content})
    assert locate(tiny_imagenet.TINY_IMAGENET, folder).problem is None
    assert is_whole(obtain(tiny_imagenet.TINY_IMAGENET, folder, ignore))
    assert [path.name for path in folder.iterdir()] == ["tiny-imagenet-200.zip"]


def test_the_mirror_serves_the_archive_over_https(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = zipped(USUAL)
    known_archive(content, monkeypatch)

    def urlopen(address: str, timeout: float) -> io.BytesIO:
        assert address == "https://cs231n.stanford.edu/tiny-imagenet-200.zip"
        return io.BytesIO(content)

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    monkeypatch.delenv("RECOLLECT_OFFLINE")
    assert is_whole(obtain(tiny_imagenet.TINY_IMAGENET, None, ignore))
    assert [path.name for path in small.iterdir()] == ["tiny-imagenet.safetensors"]


def test_a_wrong_archive_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = zipped(USUAL)
    known_archive(whole, monkeypatch)
    folder = fill(tmp_path / "mine", {"tiny-imagenet-200.zip": whole[:-1]})
    with pytest.raises(DataError, match=r"tiny-imagenet-200\.zip is truncated"):
        obtain(tiny_imagenet.TINY_IMAGENET, folder, ignore)
    incomplete = zipped(TRAIN)
    known_archive(incomplete, monkeypatch)
    fill(folder, {"tiny-imagenet-200.zip": incomplete})
    with pytest.raises(DataError, match=r"wnids\.txt is missing or cannot be read"):
        obtain(tiny_imagenet.TINY_IMAGENET, folder, ignore)


ONE = "train/n01/images/n01_2.JPEG"
ANNOTATIONS = "val/val_annotations.txt"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({ONE: None}, "/train has 2 pictures of the class n01 and 3 were expected"),
        ({"train/n02/images/n02_5.JPEG": jpeg(0)}, "/train has 4 pictures of the class n02"),
        ({"val/images/val_2.JPEG": None}, "/val has 1 pictures of the class n01 and 2 were"),
        ({"val/images/val_3.JPEG": jpeg(0)}, r"val_3\.JPEG has no known class"),
        ({ANNOTATIONS: None}, r"val_\d+\.JPEG has no known class"),
        ({ANNOTATIONS: b"val_0.JPEG\tn03\n\n"}, r"val_\d+\.JPEG has no known class"),
        ({"wnids.txt": b"n01\nn02\nn03\n"}, r"wnids\.txt, with 3 names, does not name the 2"),
        ({"wnids.txt": b"n01\nn03\n"}, "does not name the 2 classes of tiny-imagenet"),
    ],
)
def test_a_folder_that_is_not_complete_is_an_error(
    tmp_path: Path, small: Path, change: dict[str, bytes | None], message: str
) -> None:
    files = {name: data for name, data in (USUAL | change).items() if data is not None}
    folder = fill(tmp_path / "mine", files)
    with pytest.raises(DataError, match=message) as caught:
        obtain(tiny_imagenet.TINY_IMAGENET, folder, ignore)
    assert "restore the original file" in str(caught.value)
    assert locate(tiny_imagenet.TINY_IMAGENET, folder).problem == str(caught.value)
    assert not small.exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a whole PNG or JPEG file"),
        (TRAIN[ONE][:300], "is not a whole PNG or JPEG file"),
    ],
)
def test_a_picture_that_is_not_whole_is_an_error(
    tmp_path: Path, small: Path, content: bytes, message: str
) -> None:
    folder = fill(tmp_path / "mine", USUAL | {ONE: content})
    with pytest.raises(DataError, match=f"{folder}/{ONE} {message}"):
        obtain(tiny_imagenet.TINY_IMAGENET, folder, ignore)
    assert not small.exists()


def test_pictures_of_another_data_set_are_an_error(
    tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fill(tmp_path / "mine", USUAL)
    monkeypatch.setattr(tiny_imagenet, "MEAN", (0.5, 0.4, 0.5))
    with pytest.raises(DataError, match=r"are not those of tiny-imagenet: the mean of their"):
        obtain(tiny_imagenet.TINY_IMAGENET, folder, ignore)
    assert not small.exists()


def test_labels_in_another_order_are_an_error(tmp_path: Path, small: Path) -> None:
    swapped = {"val_0.JPEG": "n01", "val_1.JPEG": "n02", "val_2.JPEG": "n01", "val_10.JPEG": "n02"}
    content = "".join(f"{name}\t{wnid}\n" for name, wnid in swapped.items()).encode()
    folder = fill(tmp_path / "mine", USUAL | {ANNOTATIONS: content})
    with pytest.raises(DataError, match=r"holds another data set .* checksum of test_y"):
        obtain(tiny_imagenet.TINY_IMAGENET, folder, ignore)
    assert not small.exists()


def test_progress_is_told_now_and_then(
    tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formats, "PROGRESS", 4)
    messages: list[str] = []
    folder = fill(tmp_path / "mine" / "tiny-imagenet-200", USUAL)
    obtain(tiny_imagenet.TINY_IMAGENET, tmp_path / "mine", messages.append)
    assert messages == [
        f"decoding 10 pictures of tiny-imagenet in {folder}",
        "decoding tiny-imagenet: 4 of 10 pictures",
        "decoding tiny-imagenet: 8 of 10 pictures",
        f"tiny-imagenet is kept in {small / 'tiny-imagenet.safetensors'}",
    ]


def test_without_pillow_only_the_converted_file_can_be_read(
    tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fill(tmp_path / "mine", USUAL)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "PIL", None)
        with pytest.raises(DataError, match="run pip install pillow"):
            obtain(tiny_imagenet.TINY_IMAGENET, folder, ignore)
    obtain(tiny_imagenet.TINY_IMAGENET, folder, ignore)
    shutil.rmtree(folder)
    fill(folder, {"tiny-imagenet.safetensors": next(small.iterdir()).read_bytes()})
    shutil.rmtree(small)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "PIL", None)
        data = obtain(tiny_imagenet.TINY_IMAGENET, folder, ignore)
    assert is_whole(data)


def test_without_pillow_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RECOLLECT_OFFLINE")
    monkeypatch.setattr("urllib.request.urlopen", None)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(DataError, match="run pip install pillow"):
        obtain(tiny_imagenet.TINY_IMAGENET, None, ignore)


def test_the_error_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(DataUnavailable, match=r"name a folder that holds tiny-imagenet-200 .*zip"):
        obtain(tiny_imagenet.TINY_IMAGENET, tmp_path, ignore)
    assert locate(tiny_imagenet.TINY_IMAGENET, tmp_path).where == "not here"


def test_the_real_tiny_imagenet_is_as_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    known = CATALOGUE["tiny-imagenet"]
    assert (known.classes, known.train, known.test) == (200, 100_000, 10_000)
    assert known.image == (3, 64, 64)
    by_class = bytes(label for label in range(200) for _ in range(500))
    assert tiny_imagenet.TINY_IMAGENET.md5["train_y"] == hashlib.md5(by_class).hexdigest()
    assert all(each.startswith("https://") for each in tiny_imagenet.ARCHIVE.mirrors)
