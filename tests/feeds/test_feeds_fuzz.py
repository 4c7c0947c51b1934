"""Over a thousand malformed sources: only the documented errors, and what is sound is still read.

Each test counts the inputs that were really refused.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.feeds.damage import (
    csv_files,
    images,
    jsonl_files,
    parquet_files,
    pictures,
    positions,
    tables,
)
from tests.fuzzed import fuzzed
from tests.torture import times

from recollect.errors import DataError, InputError
from recollect.feeds import Feed, Reading, Record, open_feed

FULL_COUNTS = (270, 270, 150, 150, 200)
CSV, JSONL, PARQUET, IMAGES, PLACES = map(times, FULL_COUNTS)

Whole = tuple[list[Record], str | None]


def read(feed: Feed, at: dict[str, Any] | None = None) -> Whole:
    """The records until the end or an error, and that error; it must be a documented one."""
    found: list[Record] = []
    try:
        found.extend(record for record in feed.records(at) if record is not None)
    except (DataError, InputError) as error:
        return found, str(error) or "an error that says nothing"
    return found, None


def same(one: list[Record], other: list[Record]) -> bool:
    """Whether records are the same, bit for bit."""
    return len(one) == len(other) and all(
        a.x.tobytes() == b.x.tobytes()
        and (a.label, a.source, a.position) == (b.label, b.source, b.position)
        for a, b in zip(one, other, strict=True)
    )


def check(path: Path, how: dict[str, Any], tried: Counter[str]) -> None:
    """Read a source strictly, and leaving out what is bad, and from the middle on."""
    source = str(path)
    strict, why = read(open_feed([source], Reading(**how)))
    feed = open_feed([source], Reading(**how, skip_bad=True))
    sound, ended = read(feed)
    for record in sound:
        assert record.x.dtype == np.float32
        assert np.isfinite(record.x).all()
        assert record.x.shape == sound[0].x.shape
        assert record.label is None or isinstance(record.label, str | int | float | tuple)
    if why is None:
        assert same(strict, sound)
        assert not feed.faults.count
        tried["sound"] += 1
        return
    tried["refused"] += 1
    tried["read on"] += ended is None and len(sound) > len(strict)
    assert same(strict, sound[: len(strict)])
    assert ended is not None or feed.faults.count > 0
    if sound:  # and reading can continue behind any of them
        number = len(sound) // 2
        layout = feed.reader.layout
        later = open_feed([source], Reading(**how, skip_bad=True), layout)
        rest = read(later, {source: sound[number].position})
        assert same(rest[0], sound[number + 1 :])
        assert rest[1] == ended


@pytest.mark.parametrize(
    ("name", "files", "count"),
    [("a.csv", csv_files(), CSV), ("a.jsonl", jsonl_files(), JSONL),
     ("a.parquet", parquet_files(), PARQUET)],
    ids=["csv", "jsonl", "parquet"],
)  # fmt: skip
def test_malformed_files(
    name: str, files: st.SearchStrategy[tuple[bytes, dict[str, Any]]], count: int, tmp_path: Path
) -> None:
    tried = Counter[str]()
    path = tmp_path / name

    @settings(fuzzed, max_examples=count)
    @given(files)
    def one(case: tuple[bytes, dict[str, Any]]) -> None:
        data, how = case
        path.write_bytes(data)
        check(path, how, tried)

    one()
    assert tried["refused"] + tried["sound"] >= count
    assert tried["refused"] > 4 * tried["sound"], tried


ODD_NAMES = ["a b.png", ".png", "ä\n.PNG", "x" * 200 + ".png", "-.png", "'\".png", "\udcff.png"]


@st.composite
def folders(draw: st.DrawFn) -> list[tuple[str, bytes | str | None]]:
    """Files in folders, in order: paths with bytes, with where they link to, or None: a folder."""
    good = images()[0][1]
    found: list[tuple[str, bytes | str | None]] = [("b/0.png", good)]
    for number in range(1, draw(st.integers(2, 4))):
        ending, data = draw(pictures())
        found.append((f"b/{number}.{ending}", data))
    odd: list[tuple[str, bytes | str | None]] = [
        ("b/5.png", "nowhere"), ("b/5.png", "5.png"), ("c", "c"), ("c", "."), ("b/5.png", "../b"),
        ("b/5.png", None), ("b/5.png", "/dev/null"), ("b/5.png", "0.png"), ("5.png", b""),
    ]  # fmt: skip
    found.append(draw(st.sampled_from(odd)))
    found.append((f"b/{draw(st.sampled_from(ODD_NAMES))}", draw(st.sampled_from([good, b""]))))
    return [*found, ("b/9.png", good)]


def laid_out(root: Path, files: list[tuple[str, bytes | str | None]]) -> None:
    for number, (name, content) in enumerate(files):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir()
        elif isinstance(content, str):
            path.symlink_to(content)
        else:
            path.write_bytes(content)
            os.utime(path, ns=(number, number))


def test_malformed_images(tmp_path: Path) -> None:
    tried = Counter[str]()
    roots = iter(range(10**6))

    @settings(fuzzed, max_examples=IMAGES)
    @given(folders(), st.sampled_from(["time", "name"]), st.booleans())
    def one(files: list[tuple[str, bytes | str | None]], order: Any, sized: bool) -> None:
        root = tmp_path / str(next(roots))
        root.mkdir()
        laid_out(root, files)
        how: dict[str, Any] = {"order": order, "size": (4, 4) if sized else None}
        feed = open_feed([str(root)], Reading(**how, skip_bad=True))
        sound, ended = read(feed)
        assert ended is None, "one bad image does not spoil a folder"
        assert all(record.x.dtype == np.uint8 for record in sound)
        names = [record.position[1] for record in sound]
        assert "b/0.png" in names
        assert "b/9.png" in names
        strict, why = read(open_feed([str(root)], Reading(**how)))
        assert same(strict, sound[: len(strict)])
        assert (why is None) == (feed.faults.count == 0)
        tried["bad images"] += feed.faults.count
        again = open_feed([str(root)], Reading(**how, skip_bad=True), feed.reader.layout)
        assert same(read(again, {str(root): sound[0].position})[0], sound[1:])

    one()
    assert tried["bad images"] >= IMAGES, tried


@pytest.fixture
def every_source(tmp_path: Path) -> list[str]:
    """A sound source of every format."""
    (tmp_path / "a.csv").write_text("1,x\n2,y\n3,z\n")
    lines = "".join(f'{{"a": {n}, "label": "x"}}\n' for n in range(9))
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "a.parquet").write_bytes(tables()[0])
    laid_out(tmp_path / "images", [("b/0.png", images()[0][1])])
    return [str(tmp_path / name) for name in ("a.csv", "a.jsonl", "a.parquet", "images")]


def test_positions_that_make_no_sense(every_source: list[str]) -> None:
    tried = Counter[str]()

    @settings(fuzzed, max_examples=PLACES)
    @given(st.integers(0, 3), positions)
    def one(number: int, position: Any) -> None:
        source = every_source[number]
        found, why = read(open_feed([source]), {source: position})
        if why is None:  # it may be a position of this format
            text = ((int, int), (int, int, int, int))  # with checksums, or as saved before them
            kinds = (text, text, ((int,), (int, int)), ((int, str),))[number]
            assert tuple(map(type, position)) in kinds
            tried["sound"] += 1
        else:
            assert not found
            tried["refused"] += 1

    one()
    assert tried["refused"] >= PLACES * 0.9, tried


def test_at_least_1000_inputs_are_tried_here() -> None:
    assert sum(FULL_COUNTS) >= 1000
