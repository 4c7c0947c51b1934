"""Files that recollect writes: whole or not there."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save

from recollect import files
from recollect.errors import InputError
from recollect.files import TYPES, as_json, pack, unpack, write_bytes, write_packed, write_text


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    write_bytes(tmp_path / "file", b"old")
    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="No space"):
        write_bytes(tmp_path / "file", b"new")
    assert listing(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_the_file_is_whole_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    seen: list[int | str] = []

    def watch(descriptor: int) -> None:
        status = os.fstat(descriptor)
        assert path.exists() == stat.S_ISDIR(status.st_mode), "the folder comes last"
        seen.append("folder" if path.exists() else status.st_size)

    monkeypatch.setattr(os, "fsync", watch)
    write_bytes(path, b"12345")
    assert seen == [5, "folder"]


WRITE_OFTEN = """
import pathlib, runpy, sys
write_bytes = runpy.run_path(sys.argv[1])["write_bytes"]
for _ in range(100):
    write_bytes(pathlib.Path(sys.argv[2]), sys.argv[3].encode() * 300_000)
"""


def test_two_processes_at_once_never_show_half_a_file(tmp_path: Path) -> None:
    path, contents = tmp_path / "file", [letter * 300_000 for letter in (b"o", b"a", b"b")]
    write_bytes(path, contents[0])
    command = [sys.executable, "-c", WRITE_OFTEN, files.__file__, str(path)]
    writers = [subprocess.Popen([*command, letter]) for letter in "ab"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        seen.add(path.read_bytes())
    assert seen <= set(contents)
    assert len(seen) > 1, "the reader was there while they wrote"
    assert [writer.returncode for writer in writers] == [0, 0]
    assert listing(tmp_path) == ["file"]


def test_a_text_that_cannot_be_written_is_refused_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"cannot write .*page.html': No space left on device"):
        write_text(tmp_path / "page.html", "text")
    assert not list(tmp_path.iterdir())


def test_packed_files_are_those_of_safetensors(tmp_path: Path) -> None:
    """Byte for byte, in whatever order tensors come."""
    torch.manual_seed(0)
    tensors = {
        f"{letter}.é{number}": (5 * torch.randn(3, number).abs()).to(dtype)
        for letter in "ba"
        for number, dtype in enumerate(TYPES)
    } | {"scalar": torch.tensor(3.0), "other layout": torch.randn(3, 4).mT}
    facts = {"ä": ['"\\', 1.5, None], "\u2028": {}}
    text, rows = as_json(facts), {name: tensor.contiguous() for name, tensor in tensors.items()}
    expected = save(rows, {"recollect": f"{files._checksum(text, rows)} {text}"})
    assert pack(facts, tensors) == expected
    write_packed(tmp_path / "file", text, tensors)
    assert (tmp_path / "file").read_bytes() == expected
    found, again = unpack(expected)
    assert found == facts
    assert all(torch.equal(again[name], tensor) for name, tensor in tensors.items())


@pytest.mark.parametrize("chunk", [1, 24, 1000])
def test_a_tensor_can_be_written_from_its_parts(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "CHUNK", chunk)
    tensors = {"b": torch.randn(7, 3), "a": torch.arange(5), "c": torch.zeros(0, 2)}
    expected, events = pack({"n": 1}, tensors), list[str]()

    def parts() -> Iterator[torch.Tensor]:
        buffer = torch.empty(2, 3)
        for rows in tensors["b"].split(2):  # type: ignore[no-untyped-call]
            events.append("read")
            yield buffer[: len(rows)].copy_(rows)

    changing = tensors | {"b": torch.full((7, 3), torch.nan)}  # only its shape and type are used
    pause = lambda: events.append("pause")  # noqa: E731
    write_packed(tmp_path / "file", as_json({"n": 1}), changing, pause, {"b": parts()})
    assert (tmp_path / "file").read_bytes() == expected
    assert events.count("read") == 4
    if chunk == 1000:
        assert events == ["pause", *["read", "pause"] * 4]


def test_a_file_whose_parts_fail_is_not_written(tmp_path: Path) -> None:
    def parts() -> Iterator[torch.Tensor]:
        yield torch.zeros(1)
        raise OSError(5, "Input/output error")

    write_bytes(tmp_path / "file", b"old")
    with pytest.raises(OSError, match="Input/output error"):
        write_packed(tmp_path / "file", as_json({}), {"a": torch.zeros(2)}, parts={"a": parts()})
    assert (tmp_path / "file").read_bytes() == b"old"
    assert listing(tmp_path) == ["file"]
