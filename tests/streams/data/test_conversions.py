"""Conversions are tested on a data set whose archive is the bytes of its images."""

import io
import urllib.error
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.streams.data.some_files import described, ignore, listing

from recollect.errors import DataError
from recollect.streams.data import Dataset, DataUnavailable
from recollect.streams.data.conversions import Conversion, locate, obtain, read, write
from recollect.streams.data.files import Collection, Report

CONTENT = bytes(range(2 * 3 * 4 * 4))
Serve = Callable[[dict[str, bytes]], list[str]]


def made(content: bytes = CONTENT) -> Dataset:
    x = torch.frombuffer(bytearray(content), dtype=torch.uint8).reshape(2, 3, 4, 4)
    return Dataset("toy", 2, x, torch.tensor([0, 1]), x.clone(), torch.tensor([1, 0]))


def parse(files: Mapping[str, bytes], report: Report) -> Dataset:
    ((name, content),) = files.items()
    report(f"unpacking {name}")
    return made(content)


IMAGES = Collection("toy", described({"images": CONTENT}))
MIRRORS = ("https://one.example/", "https://two.example/")
ARCHIVE = Collection("toy", described({"toy.zip": CONTENT}), ("", "toy"), MIRRORS, gzipped=False)
TOY = Conversion(
    "toy",
    classes=2,
    image=(3, 4, 4),
    train=2,
    test=2,
    layouts={IMAGES: parse, ARCHIVE: parse},
    wanted="images or toy.zip",
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RECOLLECT_OFFLINE", raising=False)
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def serve(monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Serve some addresses, and return a list of those that will be asked for."""

    def start(served: dict[str, bytes]) -> list[str]:
        asked: list[str] = []

        def urlopen(address: str, timeout: float) -> io.BytesIO:
            asked.append(address)
            if address not in served:
                raise urllib.error.URLError("no such address")
            return io.BytesIO(served[address])

        monkeypatch.setattr("urllib.request.urlopen", urlopen)
        return asked

    start({})
    return start


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    return tmp_path / "mine"


def same(data: Dataset, other: Dataset) -> bool:
    return torch.equal(data.train_x, other.train_x) and torch.equal(data.test_y, other.test_y)


@pytest.mark.parametrize("name", ["images", "toy.zip", "toy/toy.zip"])
def test_original_files_are_converted_once_and_kept(mine: Path, cache: Path, name: str) -> None:
    (mine / name).parent.mkdir(exist_ok=True)
    (mine / name).write_bytes(CONTENT)
    assert locate(TOY, mine).where == "folder, to be converted"
    assert listing(cache) == [], "looking converts nothing"
    assert same(obtain(TOY, mine, ignore), made())
    assert listing(cache) == ["toy.safetensors"]
    assert locate(TOY, mine) == locate(TOY, None)
    assert (locate(TOY, None).where, locate(TOY, None).problem) == ("cache", None)

    (mine / name).write_bytes(b"no longer needed")
    assert same(obtain(TOY, mine, ignore), made())
    assert same(obtain(TOY, None, ignore), made())


@pytest.mark.parametrize("subfolder", ["", "toy"])
def test_a_converted_file_in_the_users_folder_is_enough(
    mine: Path, cache: Path, subfolder: str
) -> None:
    write(TOY, made(), mine / subfolder / "toy.safetensors")
    assert same(obtain(TOY, mine, ignore), made())
    assert (locate(TOY, mine).where, locate(TOY, mine).problem) == ("folder", None)
    assert listing(cache) == []


def test_the_users_converted_file_goes_before_the_cache(mine: Path, cache: Path) -> None:
    other = bytes(reversed(CONTENT))
    write(TOY, made(), cache / "toy.safetensors")
    write(TOY, made(other), mine / "toy.safetensors")
    assert same(obtain(TOY, mine, ignore), made(other))


def test_a_damaged_file_in_the_users_folder_is_an_error(
    mine: Path, cache: Path, serve: Serve
) -> None:
    asked = serve({"https://one.example/toy.zip": CONTENT})
    for name, message in (
        ("images", "images is truncated"),
        ("toy.zip", "toy.zip is truncated.*; replace it by the toy.zip of toy, or name another"),
        ("toy.safetensors", "toy.safetensors is truncated or is not a safetensors file"),
    ):
        (mine / name).write_bytes(CONTENT[:-1])
        with pytest.raises(DataError, match=message):
            obtain(TOY, mine, ignore)
        problem = locate(TOY, mine).problem
        assert problem is not None
        assert name in problem
        (mine / name).unlink()
    assert asked == []
    assert listing(cache) == []


def test_original_files_of_another_data_set_are_an_error(mine: Path, cache: Path) -> None:
    known = replace(TOY, md5={"test_y": "0123"})
    (mine / "images").write_bytes(CONTENT)
    with pytest.raises(DataError, match="mine holds another data set than toy"):
        obtain(known, mine, ignore)
    assert listing(cache) == []


def test_a_named_folder_that_does_not_exist_is_an_error(mine: Path, cache: Path) -> None:
    write(TOY, made(), cache / "toy.safetensors")
    with pytest.raises(DataError, match="does not exist"):
        obtain(TOY, mine / "nowhere", ignore)
    with pytest.raises(DataError, match="does not exist"):
        locate(TOY, mine / "nowhere")


def test_the_mirrors_are_asked_in_order(cache: Path, serve: Serve) -> None:
    asked = serve({"https://two.example/toy.zip": CONTENT})
    messages: list[str] = []
    assert same(obtain(TOY, None, messages.append), made())
    assert asked == ["https://one.example/toy.zip", "https://two.example/toy.zip"]
    assert messages[:2] == [
        "fetching toy.zip from https://one.example/",
        "fetching toy.zip from https://two.example/",
    ]
    assert messages[-2:] == ["unpacking toy.zip", f"toy is kept in {cache / 'toy.safetensors'}"]
    assert same(obtain(TOY, None, ignore), made())
    assert len(asked) == 2, "the second time the cache has it"


def test_a_large_download_says_how_far_it_is(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    serve({"https://one.example/toy.zip": CONTENT})
    monkeypatch.setattr("recollect.streams.data.downloads.CHUNK", len(CONTENT) // 4)
    messages: list[str] = []
    obtain(TOY, None, messages.append)
    assert [message for message in messages if "%" in message] == [
        f"fetching toy.zip: {percent}%" for percent in (20, 50, 70, 100)
    ]


@pytest.mark.parametrize(
    ("served", "message"),
    [
        (CONTENT[:-1], "https://one.example/toy.zip is truncated: it has 95 bytes and 96 were"),
        (CONTENT + b"x" * 9, "toy.zip is another file: it has more than the expected 96 bytes"),
        (bytes(reversed(CONTENT)), "toy.zip is corrupt or belongs to another data set"),
        (b"", "toy.zip is truncated: it has 0 bytes"),
    ],
    ids=["short", "long", "other", "empty"],
)
def test_a_bad_download_is_a_reason_and_leaves_nothing(
    cache: Path, serve: Serve, served: bytes, message: str
) -> None:
    serve({"https://one.example/toy.zip": served})
    with pytest.raises(DataUnavailable) as caught:
        obtain(TOY, None, ignore)
    assert message in str(caught.value)
    assert "https://two.example/ failed (no such address)" in str(caught.value)
    assert "name a folder that holds images or toy.zip with --data-dir" in str(caught.value)
    assert listing(cache) == []


def test_what_a_mirror_has_is_checked_before_it_is_kept(cache: Path, serve: Serve) -> None:
    asked = serve({f"{mirror}toy.zip": CONTENT for mirror in MIRRORS})
    with pytest.raises(DataUnavailable, match=r"has train_x of .*\(3, 3, 4, 4\) were expected"):
        obtain(replace(TOY, train=3), None, ignore)
    assert len(asked) == 2
    assert listing(cache) == []


def test_offline_asks_nobody(
    mine: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setenv("RECOLLECT_OFFLINE", "1")
    asked = serve({"https://one.example/toy.zip": CONTENT})
    with pytest.raises(DataUnavailable, match="RECOLLECT_OFFLINE forbids the network") as caught:
        obtain(TOY, mine, ignore)
    assert f"the folder {mine} lacks its files; the cache {cache} lacks" in str(caught.value)
    assert asked == []
    assert locate(TOY, mine).where == "not here"
    problem = locate(TOY, mine).problem
    assert problem == "toy.safetensors is missing; run recollect data fetch toy"


def test_a_damaged_file_in_the_cache_is_made_again(mine: Path, cache: Path) -> None:
    (mine / "images").write_bytes(CONTENT)
    obtain(TOY, mine, ignore)
    kept = cache / "toy.safetensors"
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    finding = locate(TOY, None)
    assert finding.where == "cache"
    assert finding.problem is not None
    assert "is corrupt" in finding.problem
    assert "run recollect data fetch toy" in finding.problem
    assert listing(cache) == ["toy.safetensors"], "looking changes nothing"

    messages: list[str] = []
    assert same(obtain(TOY, mine, messages.append), made())
    assert "is corrupt" in messages[0]
    assert "it is removed, to be made again" in messages[0]
    assert same(read(TOY, kept), made())


def test_a_cache_that_cannot_be_written_does_not_stop_the_run(mine: Path, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    (mine / "images").write_bytes(CONTENT)
    messages: list[str] = []
    assert same(obtain(TOY, mine, messages.append), made())
    assert "could not be kept in the cache" in messages[-1]
