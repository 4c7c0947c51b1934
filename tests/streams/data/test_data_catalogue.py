import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from recollect.errors import DataError, InputError, MissingExtraError
from recollect.streams.data import CATALOGUE, Dataset, DataUnavailable, load, look, mnist
from recollect.streams.data.dataset import held_out
from recollect.streams.data.files import cache_folder, named_folder, offline


@pytest.fixture(autouse=True)
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RECOLLECT_OFFLINE", "1")
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)


@pytest.fixture
def small_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with four idx files of MNIST's names, small; recollect is told their checksums."""
    images = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 1, 2, 3, 4, 255])
    labels = bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 1])
    folder = tmp_path / "mine"
    folder.mkdir()
    files = []
    for file in mnist.MNIST.files:
        content = images if "images" in file.name else labels
        (folder / file.name).write_bytes(content)
        md5 = hashlib.md5(content).hexdigest()
        files.append(replace(file, size=len(content), md5=md5))
    monkeypatch.setattr(mnist, "MNIST", replace(mnist.MNIST, files=tuple(files)))
    return folder


def test_mnist_is_parsed_from_its_four_files(small_mnist: Path) -> None:
    data = load("mnist", small_mnist)
    assert data.train_x.tolist() == [[[0, 1, 2]], [[3, 4, 255]]]
    assert data.train_y.tolist() == data.test_y.tolist() == [7, 1]
    assert (data.train_x.dtype, data.train_y.dtype) == (torch.uint8, torch.int64)
    assert (data.name, data.classes) == ("mnist", 10)


def test_the_folder_may_be_named_by_the_environment(
    small_mnist: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_DATA", str(small_mnist))
    assert load("mnist") is load("mnist", str(small_mnist))
    assert look("mnist").where == "folder"
    (small_mnist / "empty").mkdir()
    with pytest.raises(DataUnavailable):
        load("mnist", small_mnist / "empty")


def test_a_process_keeps_what_it_loaded_by_folder(small_mnist: Path, tmp_path: Path) -> None:
    first = load("mnist", small_mnist)
    for file in small_mnist.iterdir():
        file.unlink()
    assert load("mnist", small_mnist) is first
    with pytest.raises(DataUnavailable):
        load("mnist")


def test_a_failed_load_is_tried_again(small_mnist: Path) -> None:
    labels = small_mnist / "t10k-labels-idx1-ubyte"
    whole = labels.read_bytes()
    labels.write_bytes(whole[:-1])
    with pytest.raises(DataError, match="truncated"):
        load("mnist", small_mnist)
    labels.write_bytes(whole)
    assert load("mnist", small_mnist).test_y.tolist() == [7, 1]


def test_the_real_mnist_is_asked_for_by_its_checksums() -> None:
    assert {file.name: file.md5 for file in mnist.MNIST.files} == {
        "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
        "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
        "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
        "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
    }


def test_an_unknown_name_is_refused() -> None:
    for function in (load, look):
        with pytest.raises(InputError, match="unknown data set 'mnits': did you mean 'mnist'"):
            function("mnits")


def test_digits_are_rescaled_and_split_as_promised() -> None:
    data = load("digits")
    known = CATALOGUE["digits"]
    assert (len(data.train_y), len(data.test_y)) == (known.train, known.test)
    shades = torch.tensor([round(v * 255 / 16) for v in range(17)], dtype=torch.uint8)
    assert torch.equal(torch.cat([data.train_x, data.test_x]).unique(), shades)  # type: ignore[no-untyped-call]
    everything = data.train_y.bincount() + data.test_y.bincount()
    assert everything.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert data.test_y.bincount().tolist() == [round(int(n) / 5) for n in everything]


def test_digits_keep_every_image_with_its_label() -> None:
    from sklearn.datasets import load_digits

    def rows(x: Tensor, y: Tensor) -> list[list[int]]:
        joined: list[list[int]] = torch.cat([x.flatten(1).long(), y[:, None]], 1).tolist()
        return sorted(joined)

    data, bunch = load("digits"), load_digits()
    original = (torch.from_numpy(bunch.images) * 255 / 16).round()
    assert rows(
        torch.cat([data.train_x, data.test_x]), torch.cat([data.train_y, data.test_y])
    ) == rows(original, torch.from_numpy(bunch.target))


def test_the_split_of_the_digits_never_changes() -> None:
    test = load("digits").test_x
    assert hashlib.md5(test.numpy().tobytes()).hexdigest() == "fb7a9c275a61dab4bfe904419850536e"


def test_a_class_is_split_whatever_the_other_classes_are() -> None:
    y = torch.tensor([0, 1] * 50)
    mask = held_out(y)
    assert mask[y == 0].sum() == mask[y == 1].sum() == 10
    assert torch.equal(held_out(y[y == 1]), mask[y == 1])
    assert not torch.equal(mask[y == 0], mask[y == 1])


def test_without_scikit_learn_the_digits_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtraError, match=r'pip install "recollect\[digits\]"'):
        load("digits", tmp_path)
    assert look("digits").where == "not here"


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.zeros(2, 3, 3), torch.zeros(2).long(), "give them as uint8"),
        (torch.zeros(2, 9).byte(), torch.zeros(2).long(), "height, width"),
        (torch.zeros(2, 4, 4, 3).byte(), torch.zeros(2).long(), "or .examples, 3, height, width"),
        (torch.zeros(2, 1, 3, 3).byte(), torch.zeros(2).long(), "or .examples, 3, height, width"),
        (torch.zeros(2, 3, 3, 3), torch.zeros(2).long(), "give them as uint8"),
        (torch.zeros(2, 3, 3).byte(), torch.zeros(2).int(), "one int64 label"),
        (torch.zeros(2, 3, 3).byte(), torch.zeros(3).long(), "for 2 images"),
        (torch.zeros(2, 3, 3).byte(), torch.tensor([0, 5]), r"must lie in 0\.\.4"),
        (torch.zeros(2, 3, 3).byte(), torch.tensor([-1, 0]), "labels from -1 to 0"),
    ],
)
def test_a_data_set_that_is_not_one_is_refused(x: Tensor, y: Tensor, message: str) -> None:
    good_x, good_y = torch.zeros(1, 3, 3, dtype=torch.uint8), torch.zeros(1, dtype=torch.int64)
    with pytest.raises(DataError, match=f"the training part of odd.*{message}"):
        Dataset("odd", 5, x, y, good_x, good_y)
    with pytest.raises(DataError, match=f"the test part of odd.*{message}"):
        Dataset("odd", 5, good_x, good_y, x, y)


def test_colour_is_kept_channel_first() -> None:
    x, y = torch.zeros(2, 3, 5, 4, dtype=torch.uint8), torch.tensor([0, 1])
    assert Dataset("colour", 2, x, y, x, y).train_x.shape == (2, 3, 5, 4)
    grey = torch.zeros(2, 5, 4, dtype=torch.uint8)
    with pytest.raises(DataError, match=r"shape \(3, 5, 4\) to learn and \(5, 4\) to test"):
        Dataset("mixed", 2, x, y, grey, y)


def test_the_cache_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("RECOLLECT_CACHE", "~/own")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder() == Path("/home/someone/own")
    monkeypatch.delenv("RECOLLECT_CACHE")
    assert cache_folder() == Path("/xdg/recollect")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path("/home/someone/.cache/recollect")


def test_an_argument_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert named_folder() is None
    monkeypatch.setenv("RECOLLECT_DATA", "")
    assert named_folder() is None
    monkeypatch.setenv("RECOLLECT_DATA", "/env")
    assert named_folder() == Path("/env")
    assert named_folder("/argument") == Path("/argument")


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("yes", True), ("0", False)])
def test_offline_is_a_setting(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv("RECOLLECT_OFFLINE", value)
    assert offline() is expected
