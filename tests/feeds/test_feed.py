"""Several sources as one stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recollect.errors import InputError
from recollect.feeds import Feed, Reading, open_feed


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.csv").write_text("v,kind\n1,x\n2,y\n")
    (tmp_path / "b.csv").write_text("v,kind\n3,x\n")
    (tmp_path / "c.tsv").write_text("v\tkind\n4\tx\n")
    (tmp_path / "d.jsonl").write_text('{"v": 5, "label": "x"}\n')
    (tmp_path / "e").write_text("6,x\n")
    (tmp_path / "f.csv.gz").write_bytes(b"")
    (tmp_path / "f.csv.xz").write_bytes(b"")
    (tmp_path / "pictures").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def values(feed: Feed, **positions: tuple[int, ...]) -> list[float]:
    return [float(r.x[0]) for r in feed.records(positions) if r is not None]


def test_files_follow_each_other_and_continue_one_by_one(folder: Path) -> None:
    feed = open_feed(["a.csv", "b.csv"])
    assert values(feed) == [1, 2, 3]
    records = [r for r in feed.records() if r]
    assert [r.source for r in records] == ["a.csv", "a.csv", "b.csv"]
    positions = {r.source: r.position for r in records[:1]}
    assert [r.x.tolist() for r in feed.records(positions) if r] == [[2], [3]]
    positions = {r.source: r.position for r in records}
    assert list(feed.records(positions)) == []


def test_names_tell_the_format(folder: Path) -> None:
    assert values(open_feed(["c.tsv"])) == [4]
    assert values(open_feed(["d.jsonl"])) == [5]
    assert values(open_feed(["e"], Reading(kind="csv"))) == [6]
    assert open_feed(["pictures"]).kind == "images"
    assert open_feed(["-"]).kind == "csv"


@pytest.mark.parametrize(
    ("sources", "reading", "why"),
    [
        ([], Reading(), "no source is given"),
        (["nowhere.csv"], Reading(), "there is no file or folder 'nowhere.csv'"),
        (["a.csv", "-"], Reading(), "standard input \\(-\\) cannot be combined with files"),
        (["a.csv", "d.jsonl"], Reading(), "the same format: a.csv and d.jsonl differ"),
        (["e"], Reading(), "cannot infer the format of e from its name: give kind, one of csv"),
        (["f.csv.gz"], Reading(), "f.csv.gz is compressed: .* the output of gunzip -c to"),
        (["f.csv.xz"], Reading(), "f.csv.xz is compressed: .* the output of xz -dc to"),
        (["-"], Reading(kind="parquet"), "parquet cannot be read from standard input"),
        (["a.csv"], Reading(kind="parquet", follow=True), "a Parquet file cannot be followed"),
    ],
)
def test_what_cannot_be_opened(
    sources: list[str], reading: Reading, why: str, folder: Path
) -> None:
    with pytest.raises(InputError, match=why):
        open_feed(sources, reading)


def test_a_folder_of_tables_is_not_read_as_images(tmp_path: Path) -> None:
    folder = tmp_path / "readings"
    (folder / "classes").mkdir(parents=True)
    for name in ("a.csv", "b.CSV", "classes/c.csv", "notes.txt", ".hidden.csv", "model.bin"):
        (folder / name).write_text("1,x\n")
    why = "has no images, but 3 .csv files, 1 .txt file: give the files themselves, such as .*csv"
    with pytest.raises(InputError, match=why):
        open_feed(folder)
    said: list[str] = []
    open_feed(folder, Reading(follow=True, say=said.append))  # images may arrive later
    assert "has no images, but 3 .csv files" in said[0]
    open_feed(folder, Reading(kind="images"))
    (folder / "classes" / "picture.png").touch()
    assert open_feed(folder).kind == "images"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"features": "ab"}, r"features must be a list of names, such as \['a', '2'\], not 'ab'"),
        ({"ignore": [1]}, r"ignore must be a list of names, such as \['a', '2'\], not \[1\]"),
        ({"label": 3}, "label must be text, such as '3', not 3"),
    ],
)
def test_arguments_of_a_wrong_type(arguments: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        Reading(**arguments)


def test_a_reading_of_a_wrong_type(folder: Path) -> None:
    wrong: Any = "kind"
    with pytest.raises(InputError, match="reading must be a Reading, such as"):
        open_feed("a.csv", wrong)
