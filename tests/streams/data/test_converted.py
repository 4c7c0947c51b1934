import hashlib
import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from recollect.streams.data import Dataset
from recollect.streams.data.conversions import Conversion, Unfit, read, write

FORM = Conversion("toy", classes=3, image=(3, 4, 5), train=6, test=2)


def toy(seed: int = 0) -> Dataset:
    generator = torch.Generator().manual_seed(seed)

    def images(count: int) -> Tensor:
        return torch.randint(0, 256, (count, *FORM.image), generator=generator).to(torch.uint8)

    labels = torch.tensor([0, 1, 2, 2, 1, 0])
    return Dataset("toy", 3, images(6), labels, images(2), labels[1:3])


def md5(tensor: Tensor) -> str:
    return hashlib.md5(tensor.to(torch.uint8).numpy().tobytes()).hexdigest()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(FORM, toy(), tmp_path / "made" / FORM.file)
    return tmp_path / "made" / FORM.file


def test_what_was_written_is_read_back(path: Path) -> None:
    data, again = toy(), read(FORM, path)
    for name in ("train_x", "train_y", "test_x", "test_y"):
        assert torch.equal(getattr(data, name), getattr(again, name))
        assert getattr(data, name).dtype == getattr(again, name).dtype
    assert (again.name, again.classes) == ("toy", 3)
    assert [each.name for each in path.parent.iterdir()] == ["toy.safetensors"]


def test_other_programs_can_read_the_file(path: Path) -> None:
    tensors = load_file(path)
    assert {name: (tuple(each.shape), each.dtype) for name, each in tensors.items()} == {
        "train_x": ((6, 3, 4, 5), torch.uint8),
        "train_y": ((6,), torch.uint8),
        "test_x": ((2, 3, 4, 5), torch.uint8),
        "test_y": ((2,), torch.uint8),
    }


def test_other_users_can_read_the_file(path: Path) -> None:
    (path.parent / "plain").touch()
    assert path.stat().st_mode == (path.parent / "plain").stat().st_mode


def test_who_writes_to_the_images_does_not_change_the_file(path: Path) -> None:
    before = path.read_bytes()
    read(FORM, path).train_x.zero_()
    assert path.read_bytes() == before
    assert read(FORM, path).train_x.any()


def test_every_truncation_is_refused(path: Path) -> None:
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(Unfit, match="is truncated or is not a safetensors file"):
            read(FORM, path)
    path.unlink()
    with pytest.raises(Unfit, match="is truncated or is not"):
        read(FORM, path)


def test_every_changed_byte_of_the_content_is_found(path: Path) -> None:
    whole = path.read_bytes()
    start = 8 + struct.unpack("<Q", whole[:8])[0]
    for place in range(start, len(whole), 11):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(Unfit, match="is corrupt: the MD5 checksum of"):
            read(FORM, path)


def test_a_file_of_another_shape_is_refused(path: Path) -> None:
    with pytest.raises(Unfit, match=r"has train_x .* shape \(6, 3, 4, 5\): .*\(7, 3, 4, 5\) were"):
        read(replace(FORM, train=7), path)
    with pytest.raises(Unfit, match=r"\(6, 3, 5, 4\) were expected"):
        read(replace(FORM, image=(3, 5, 4)), path)


def test_a_file_without_the_four_tensors_is_refused(path: Path) -> None:
    tensors = load_file(path)
    save_file({"train_x": tensors["train_x"].clone()}, path)
    with pytest.raises(Unfit, match="holds train_x: test_x, test_y, train_x, train_y were"):
        read(FORM, path)


def test_labels_of_another_type_are_refused(path: Path) -> None:
    tensors = {name: each.clone() for name, each in load_file(path).items()}
    save_file(tensors | {"test_y": torch.tensor([1, 2])}, path)
    with pytest.raises(Unfit, match=r"has test_y of type torch.int64"):
        read(FORM, path)


def test_labels_out_of_range_are_refused(path: Path) -> None:
    with pytest.raises(Unfit, match=r"is not a file of toy: .*they must lie in 0\.\.1"):
        read(replace(FORM, classes=2), path)


def test_a_file_that_carries_no_checksums_is_refused(path: Path) -> None:
    tensors = {name: each.clone() for name, each in load_file(path).items()}
    save_file(tensors, path)
    with pytest.raises(Unfit, match="was not written by recollect: it carries no checksum of"):
        read(FORM, path)
    known = replace(FORM, md5={name: md5(each) for name, each in tensors.items()})
    assert len(read(known, path).train_y) == 6, "unless all that it should carry is known"


def test_a_checksum_that_is_known_goes_before_the_one_in_the_file(path: Path) -> None:
    known = replace(FORM, md5={"test_y": md5(toy().test_y)})
    read(known, path)
    with pytest.raises(Unfit, match=r"the MD5 checksum of test_y is .* and 0123 was expected"):
        read(replace(FORM, md5={"test_y": "0123"}), path)


def test_another_data_set_is_not_written(tmp_path: Path) -> None:
    known = replace(FORM, md5={"train_x": md5(toy(seed=0).train_x)})
    write(known, toy(seed=0), tmp_path / "file")
    before = (tmp_path / "file").read_bytes()
    with pytest.raises(Unfit, match=r"holds another data set than toy: .* checksum of train_x"):
        write(known, toy(seed=1), tmp_path / "file")
    with pytest.raises(Unfit, match="has train_x"):
        write(replace(FORM, train=5), toy(), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == before


def test_the_file_carries_the_checksum_of_every_tensor(path: Path) -> None:
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + struct.unpack("<Q", content[:8])[0]])
    data = toy()
    assert header["__metadata__"] == {
        name: md5(getattr(data, name)) for name in ("train_x", "train_y", "test_x", "test_y")
    }
