"""Fashion-MNIST, whose files have the names of MNIST's: which are whose, and where they are."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from tests.streams.data.some_files import fill, ignore

from recollect.errors import DataError
from recollect.streams.data import CATALOGUE, DataUnavailable, mnist
from recollect.streams.data.files import Collection, File
from recollect.streams.data.sources import survey


def idx(seed: int) -> dict[str, bytes]:
    """The four files of a data set of two pictures of 1x2 pixels, and one to test."""
    found = {}
    for part, count in (("train", 2), ("t10k", 1)):
        pixels = bytes((seed + i) % 256 for i in range(2 * count))
        shape = b"".join(n.to_bytes(4, "big") for n in (count, 1, 2))
        found[f"{part}-images-idx3-ubyte"] = b"\0\0\x08\x03" + shape + pixels
        found[f"{part}-labels-idx1-ubyte"] = b"\0\0\x08\x01" + shape[:4] + bytes([seed] * count)
    return found


DIGITS, CLOTHES = idx(1), idx(7)


def small(known: Collection, mine: dict[str, bytes], other: dict[str, bytes]) -> Collection:
    def md5(content: bytes) -> str:
        return hashlib.md5(content).hexdigest()

    files = tuple(File(n, len(c), md5(c), (), (md5(other[n]),)) for n, c in mine.items())
    return replace(known, files=files, installed=())


FASHION = small(mnist.FASHION_MNIST, CLOTHES, DIGITS)
PLAIN = small(mnist.MNIST, DIGITS, CLOTHES)


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RECOLLECT_OFFLINE", "1")


@pytest.mark.parametrize("subfolder", ["", "fashion-mnist", "FashionMNIST/raw"])
def test_a_folder_may_be_laid_out_in_many_ways(tmp_path: Path, subfolder: str) -> None:
    mine = tmp_path / "mine"
    fill(mine / subfolder, {f"{n}.gz": gzip.compress(c) for n, c in CLOTHES.items()})
    assert (survey(FASHION, mine).where, survey(FASHION, mine).problem) == ("folder", None)
    data = mnist.read(FASHION, mine, ignore)
    assert (data.name, data.train_y.tolist(), data.test_y.tolist()) == (
        "fashion-mnist",
        [7, 7],
        [7],
    )
    assert data.train_x.shape == (2, 1, 2)


@pytest.mark.parametrize(("known", "other"), [(FASHION, DIGITS), (PLAIN, CLOTHES)])
def test_the_files_of_the_other_are_passed_over(
    tmp_path: Path, known: Collection, other: dict[str, bytes]
) -> None:
    """Both have files of the same names: those of the other data set are no damage."""
    mine = fill(tmp_path / "mine", other)
    assert survey(known, mine).where == "not here"
    with pytest.raises(DataUnavailable, match="lacks its files"):
        mnist.read(known, mine, ignore)
    fill(tmp_path / "cache" / known.name, CLOTHES if known is FASHION else DIGITS)
    assert survey(known, mine).where == "cache"
    assert mnist.read(known, mine, ignore).name == known.name


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    name = "t10k-labels-idx1-ubyte"
    mine = fill(tmp_path / "mine", {**CLOTHES, name: CLOTHES[name][:-1] + b"x"})
    assert "is corrupt" in str(survey(FASHION, mine).problem)
    with pytest.raises(DataError, match="is corrupt"):
        mnist.read(FASHION, mine, ignore)


def test_what_the_system_has_installed_is_found_and_left_alone(tmp_path: Path) -> None:
    system = fill(tmp_path / "system", CLOTHES)
    known = replace(FASHION, installed=(str(tmp_path / "nowhere"), str(system)))
    assert (survey(known, None).where, survey(known, None).problem) == ("system", None)
    assert mnist.read(known, None, ignore).train_y.tolist() == [7, 7]
    assert not (tmp_path / "cache").exists()
    (system / "t10k-labels-idx1-ubyte").write_bytes(b"half")
    with pytest.raises(DataError, match="is truncated"):
        mnist.read(known, None, ignore)
    assert (system / "t10k-labels-idx1-ubyte").exists()


def test_the_catalogue_knows_it() -> None:
    known = CATALOGUE["fashion-mnist"]
    assert (known.classes, known.image, known.train, known.test) == (10, (28, 28), 60_000, 10_000)
