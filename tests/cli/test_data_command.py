import argparse
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from recollect.cli.data import configure
from recollect.errors import DataError, InputError
from recollect.streams.data import DataUnavailable, mnist


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without MNIST, whose MNIST would be four small files."""
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RECOLLECT_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)
    files = tuple(
        replace(file, size=len(content(file.name)), md5=hashlib.md5(content(file.name)).hexdigest())
        for file in mnist.MNIST.files
    )
    monkeypatch.setattr(mnist, "MNIST", replace(mnist.MNIST, files=files))
    return tmp_path / "cache"


def content(name: str) -> bytes:
    if "labels" in name:
        return bytes([0, 0, 8, 1, 0, 0, 0, 1, 7])
    return bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 200])


def fill(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for file in mnist.MNIST.files:
        (folder / file.name).write_bytes(content(file.name))
    return folder


def recollect(*words: str) -> int:
    parser = argparse.ArgumentParser()
    configure(parser)
    arguments = parser.parse_args(words)
    status: int = arguments.command(arguments)
    return status


def row(output: str, name: str) -> list[str]:
    (line,) = (line for line in output.splitlines() if f" {name} " in line)
    return [cell.strip() for cell in line.strip("│ ").split("│")]


@pytest.mark.parametrize("words", [(), ("list",)])
def test_list_shows_every_data_set(
    words: tuple[str, ...], cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recollect(*words) == 0
    output = capsys.readouterr().out
    names = ("digits", "mnist", "cifar10", "cifar100", "tiny-imagenet")
    assert [row(output, name) for name in names] == [
        ["digits", "1,438 + 359 test", "8×8", "10", "115.0 kB", "bundled", "ok"],
        ["mnist", "60,000 + 10,000 test", "28×28", "10", "54.9 MB", "not here", "-"],
        ["cifar10", "50,000 + 10,000 test", "3×32×32", "10", "184.3 MB", "not here", "-"],
        ["cifar100", "50,000 + 10,000 test", "3×32×32", "100", "184.3 MB", "not here", "-"],
        ["tiny-imagenet", "100,000 + 10,000 test", "3×64×64", "200", "1.4 GB", "not here", "-"],
    ]

    fill(cache / "mnist")
    recollect(*words)
    assert row(capsys.readouterr().out, "mnist")[5:] == ["cache", "ok"]


def test_verify_finds_a_corrupt_file(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(cache / "mnist")
    assert recollect("verify") == 0
    assert row(capsys.readouterr().out, "mnist")[5:] == ["cache", "ok"]

    labels = cache / "mnist" / "t10k-labels-idx1-ubyte"
    labels.write_bytes(content(labels.name)[:-1] + b"\x00")
    with pytest.raises(DataError, match=f"{labels} is corrupt.*run recollect data fetch mnist"):
        recollect("verify")
    assert row(capsys.readouterr().out, "mnist")[5:] == ["cache", "wrong"]
    assert labels.exists()
    assert recollect("verify", "digits") == 0


def test_verify_finds_what_is_missing(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DataError, match=r"mnist is not valid: train-images.* is missing"):
        recollect("verify", "mnist")
    fill(cache / "mnist")
    (cache / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="t10k-labels-idx1-ubyte is missing"):
        recollect("verify", "mnist")


def test_verify_without_names_passes_over_what_is_not_here(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recollect("verify") == 0
    assert row(capsys.readouterr().out, "tiny-imagenet")[5:] == ["not here", "-"]
    cache.mkdir()
    (cache / "tiny-imagenet.safetensors").write_bytes(b"half of it")
    with pytest.raises(DataError, match=r"tiny-imagenet is not valid: .* is truncated or"):
        recollect("verify")
    assert row(capsys.readouterr().out, "tiny-imagenet")[5:] == ["cache", "wrong"]


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "tiny-imagenet"])
def test_what_needs_converting_is_asked_for_by_name(name: str) -> None:
    with pytest.raises(DataError, match=f"{name}.safetensors is missing; run recollect data fetch"):
        recollect("verify", name)
    with pytest.raises(DataUnavailable, match=rf"the data set {name} .*{name}\.safetensors"):
        recollect("fetch", name)


def test_verify_looks_into_the_named_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = fill(tmp_path / "mine")
    assert recollect("verify", "mnist", "--data-dir", str(folder)) == 0
    assert row(capsys.readouterr().out, "mnist")[5:] == ["folder", "ok"]
    with pytest.raises(DataError, match="does not exist"):
        recollect("verify", "mnist", "--data-dir", str(tmp_path / "nowhere"))


def test_fetch_says_what_is_ready(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = fill(tmp_path / "mine")
    assert recollect("fetch", "mnist", "digits", "--data-dir", str(folder)) == 0
    assert capsys.readouterr().out.splitlines() == [
        "mnist is ready: 1 training and 1 test examples of 10 classes",
        "digits is ready: 1,438 training and 359 test examples of 10 classes",
    ]


def test_fetch_reports_progress_apart_from_the_result(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(cache / "mnist")
    (cache / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(b"[bold]")
    with pytest.raises(DataUnavailable, match="RECOLLECT_OFFLINE forbids the network"):
        recollect("fetch", "mnist")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "t10k-labels-idx1-ubyte is truncated" in captured.err
    assert len(captured.err.splitlines()) == 1


@pytest.mark.parametrize("action", ["fetch", "verify"])
def test_a_wrong_name_is_refused_before_anything_is_done(
    action: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="did you mean 'mnist'"):
        recollect(action, "digits", "minst")
    assert capsys.readouterr().out == ""
