import os
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.streams.data import cache
from recollect.streams.data.cache import keep


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    keep(tmp_path / "file", b"old")
    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="No space"):
        keep(tmp_path / "file", b"new")
    assert listing(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_the_file_is_whole_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "file", []

    def watch(descriptor: int) -> None:
        assert not path.exists()
        seen.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", watch)
    keep(path, b"12345")
    assert seen == [5]


WRITE_OFTEN = """
import pathlib, runpy, sys
keep = runpy.run_path(sys.argv[1])["keep"]
for _ in range(100):
    keep(pathlib.Path(sys.argv[2]), sys.argv[3].encode() * 300_000)
"""


def test_two_processes_at_once_never_show_half_a_file(tmp_path: Path) -> None:
    path, contents = tmp_path / "file", [letter * 300_000 for letter in (b"o", b"a", b"b")]
    keep(path, contents[0])
    command = [sys.executable, "-c", WRITE_OFTEN, cache.__file__, str(path)]
    writers = [subprocess.Popen([*command, letter]) for letter in "ab"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        seen.add(path.read_bytes())
    assert seen <= set(contents)
    assert len(seen) > 1, "the reader was there while they wrote"
    assert [writer.returncode for writer in writers] == [0, 0]
    assert listing(tmp_path) == ["file"]
