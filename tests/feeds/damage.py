"""Sources that are not as they should be, as Hypothesis makes them: text, Parquet, images."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from PIL import Image

__all__ = ["bomb", "csv_files", "jsonl_files", "parquet_files", "pictures", "positions"]

numbers = st.floats(-1e3, 1e3, width=32)
words = st.sampled_from(["idle", "hot", "läuft"])

BAD_CELLS = [
    b"inf", b"-infinity", b"1e39", b"-4e38", b"1e999", b"one", b"0x10", b"1,5",
    b"1.2.3", b"\x00", b"1\x00", b"\xff", b"\xe9", b"\xed\xa0\x80", b'"1', b'1"', b'"1"2', b'""1',
    b"9" * 5000, b"1\r2", b"--1", b"\xef\xbb\xbf1", b"+", b"1e", b"\xc0\x80",
]  # fmt: skip


BAD_HEADERS = [
    b"a,a,a,a\n", b"kind\n", b",,,\n", b"a,b,c\n", b"\xff\xfe,b,c,kind\n", b"\n\n", b"", b"\x00\n",
    b'"a,b,c,kind\n', b"a,b,c,kind,x\n", b"{},b,c,kind\n", b"1,2,3,4\n", b"a;b;c;kind\n",
]  # fmt: skip


@st.composite
def good_row(draw: st.DrawFn) -> bytes:
    """A row that can be read."""
    cells = [repr(draw(numbers)) for _ in range(3)]
    return ",".join([*cells, draw(words)]).encode() + draw(st.sampled_from([b"\n", b"\r\n"]))


@st.composite
def bad_row(draw: st.DrawFn) -> bytes:
    """A row of which something is wrong, if it is not random bytes that happen to be right."""
    cells = [repr(draw(numbers)).encode() for _ in range(3)] + [draw(words).encode()]
    how = draw(st.sampled_from(["cell", "cell", "cell", "count", "wide", "huge", "bytes", "label"]))
    if how == "cell":
        cells[draw(st.integers(0, 2))] = draw(st.sampled_from(BAD_CELLS))
    elif how == "count":
        cells = cells * 2 if draw(st.booleans()) else cells[: draw(st.integers(1, 3))]
    elif how == "wide":
        return b",".join(cells).decode().encode("utf-16") + b"\n"
    elif how == "huge":
        cells[0] = b'"' + b"7" * draw(st.sampled_from([200_000, 140_000])) + b'"'
    elif how == "label":
        cells[3] = draw(st.sampled_from([b'"open', b'in"ner,"x', b"\xff\xfe", b'"a"b', b"\x80"]))
    else:
        return draw(st.binary(min_size=1, max_size=40))
    return b",".join(cells) + b"\n"


@st.composite
def csv_files(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """Rows of which some are bad, or a header with which nothing can be done; how to read them."""
    rows = draw(st.lists(good_row(), min_size=1, max_size=4))
    for bad in draw(st.lists(bad_row(), min_size=1, max_size=3)):
        rows.insert(draw(st.integers(1, len(rows))), bad)
    how: dict[str, Any] = {}
    header = b"a,b,c,kind\n"
    if draw(st.integers(0, 3)) == 0:
        header = draw(st.sampled_from(BAD_HEADERS))
        odd = [
            {}, {"label": "nope"}, {"label": "a"}, {"features": ["a", "a"]}, {"ignore": ["0"]},
            {"features": ["kind"], "label": "kind"}, {"header": True}, {"header": False},
            {"label": "99"}, {"label": "-9"}, {"delimiter": ";"}, {"label": ""},
        ]  # fmt: skip
        how = draw(st.sampled_from(odd))
    return header + b"".join(rows), how


BAD_VALUES = [
    "Infinity", "-Infinity", "1e999", "1e39", "9" * 400, "9" * 5000, '"1"', "{}",
    "[]", "[[]]", "[1, 2]", '{"x": 1}', "[1, [2]]", "tru", "01", "1.", "+1", '"\\ud800"', "'1'",
    "[" * 50 + "]" * 50, "[" * 800 + "1" + "]" * 800, "[" * 990 + "]" * 990, "-",
    "[" * 100_000, '{"a":' * 5000 + "1" + "}" * 5000, "[" * 70 + "1" + "]" * 70,
]  # fmt: skip
BAD_LABELS = ["NaN", "Infinity", "[]", "{}", "[1]", "1e999", "-1e999", '{"a": 1}']


@st.composite
def jsonl_files(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """Objects of which some are bad; how to read them."""

    def row(**other: str) -> bytes:
        parts = {"a": repr(draw(numbers)), "b": repr(draw(numbers)), "label": json.dumps("x")}
        return ", ".join(f'"{k}": {v}' for k, v in {**parts, **other}.items()).encode()

    lines = [b"{%b}\n" % row() for _ in range(draw(st.integers(1, 4)))]
    for _ in range(draw(st.integers(1, 3))):
        kinds = ["value", "value", "label", "cut", "twice", "other", "bytes"]
        how = draw(st.sampled_from(kinds))
        good = b"{%b}" % row()
        if how == "value":
            depth = draw(st.integers(800, 1000))
            value = draw(st.sampled_from([*BAD_VALUES, "[" * depth + "1" + "]" * depth]))
            line = b"{%b}" % row(a=value)
        elif how == "label":
            line = b"{%b}" % row(label=draw(st.sampled_from(BAD_LABELS)))
        elif how == "cut":
            line = good[: draw(st.integers(1, len(good) - 1))]
        elif how == "twice":
            line = b'{"a": 1, %b, "a": "no"}' % row()
        elif how == "other":
            other = [b"[]", b"1", b"null", b'"text"', b"\x00", b"\xff{}", b"{}{}", b"{}", b"true"]
            line = draw(st.sampled_from(other))
        else:
            line = draw(st.binary(min_size=1, max_size=40)).replace(b"\n", b"?")
        lines.insert(draw(st.integers(0, len(lines))), line + b"\n")
    odd = [{}, {}, {}, {"features": ["a", "z"]}, {"label": "kind"}, {"ignore": ["z"]},
           {"features": ["a"]}, {"features": ["label"]}]  # fmt: skip
    return b"".join(lines), draw(st.sampled_from(odd))


@cache
def tables() -> list[bytes]:
    """Whole Parquet files; only the first has nothing that a reader could refuse."""
    some = np.linspace(-1, 1, 40)
    plain = {"a": some, "b": some.astype("f4"), "n": np.arange(40), "kind": ["x", "y"] * 20}
    holes = [None, *some.tolist()[1:]]
    odd: list[dict[str, Any]] = [
        plain,
        {**plain, "a": holes},
        {**plain, "a": [float("nan")] * 40},
        {**plain, "a": [1e300] * 40},
        {"a": [[1.0, 2.0], [3.0], *[[1.0, 2.0]] * 38], "kind": ["x"] * 40},
        {"a": [[1.0, None]] * 40, "kind": ["x"] * 40},
        {"a": [[[1.0], [2.0, 3.0]]] * 40, "kind": ["x"] * 40},
        {"a": [{"u": 1.0}] * 40, "kind": ["x"] * 40},
        {"a": [None] * 40, "kind": ["x"] * 40},
        {"a": [f"text {n}" for n in range(40)], "kind": ["x"] * 40},
        {"kind": ["x"] * 40},
        {"a": some, "kind": [[1]] * 40},
        {"a": some, "kind": [float("nan")] * 40},
        {"a": some, "kind": [b"\xff"] * 40},
        {"a": [], "kind": []},
    ]
    found = []
    for columns in odd:
        buffer = io.BytesIO()
        pq.write_table(pa.table(columns), buffer, row_group_size=16)
        found.append(buffer.getvalue())
    return found


@st.composite
def parquet_files(draw: st.DrawFn) -> tuple[bytes, dict[str, Any]]:
    """A Parquet file that is damaged, or whose columns are not what they should be."""
    which = draw(st.sampled_from(["damaged", "damaged", "odd"]))
    if which == "odd":
        ways: list[dict[str, Any]] = [{}, {"features": ["a"]}, {"label": "kind"}, {"label": "7"},
                                      {"features": ["kind"]}, {"ignore": ["a"]}]  # fmt: skip
        refusing = {**draw(st.sampled_from(ways)), "missing": "refuse"}
        return draw(st.sampled_from(tables()[1:])), refusing
    data = draw(st.sampled_from(tables()[:2]))
    place = draw(st.integers(0, len(data) - 1))
    how = draw(st.sampled_from(["cut", "flip", "hole", "zeros", "text", "twice"]))
    made: dict[str, Callable[[], bytes]] = {
        "cut": lambda: data[:place],
        "flip": lambda: data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :],
        "hole": lambda: data[:place] + data[place + 9 :],
        "zeros": lambda: data[:place] + bytes(len(data) - place),
        "text": lambda: b"a,b\n1,x\n",
        "twice": lambda: data[: place // 2] + data,
    }
    return made[how](), {}


@cache
def images() -> list[tuple[str, bytes]]:
    """Whole images of several kinds, with the ending of their names."""
    found = []
    for kind, ending in (("PNG", "png"), ("JPEG", "jpg"), ("BMP", "bmp"), ("WEBP", "webp")):
        buffer = io.BytesIO()
        pixels = np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(buffer, kind)
        found.append((ending, buffer.getvalue()))
    return found


def bomb(width: int, height: int) -> bytes:
    """A small PNG that says that it has so many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = {b"IHDR": header, b"IDAT": zlib.compress(bytes(1000)), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(kind, data) for kind, data in parts.items())


@st.composite
def pictures(draw: st.DrawFn) -> tuple[str, bytes]:
    """The ending of a name, and bytes that are not the image that it promises."""
    ending, data = draw(st.sampled_from(images()))
    place = draw(st.integers(8, len(data) - 1))
    how = draw(st.sampled_from(["cut", "cut", "head", "empty", "text", "bomb", "size", "random"]))
    if how == "cut":
        return ending, data[:place]
    if how == "head":
        early = draw(st.integers(0, min(40, len(data) - 1)))
        return ending, data[:early] + bytes([data[early] ^ 0xFF]) + data[early + 1 :]
    if how == "bomb":
        sizes = [(60_000, 60_000), (11_000, 11_000), (2**31 - 1, 2), (0, 5), (2**31 - 1, 2**31 - 1)]
        return "png", bomb(*draw(st.sampled_from(sizes)))
    if how == "size":
        return "png", bomb(draw(st.integers(9, 30)), draw(st.integers(9, 30)))
    made = {"empty": b"", "text": b"not an image", "random": draw(st.binary(max_size=80))}
    return ending, made[how]


positions = st.one_of(
    st.none().map(lambda _: ()), st.integers(), st.text(max_size=3), st.floats(),
    st.lists(st.integers(-5, 5), max_size=4), st.binary(max_size=3),
    st.tuples(st.integers(max_value=-1), st.integers()),
    st.tuples(st.integers(), st.integers(max_value=-1)),
    st.tuples(st.text(max_size=3), st.integers()), st.tuples(st.integers(), st.floats()),
    st.tuples(st.integers(0, 5), st.none()), st.tuples(st.booleans(), st.booleans()),
    st.tuples(st.integers(10**6, 10**30), st.integers(0, 9)), st.tuples(st.integers(10**6)),
    st.tuples(st.integers(1, 9), st.integers(0, 9)).filter(lambda at: at[0] not in (4, 8)),
    st.dictionaries(st.integers(), st.integers(), max_size=2),
)  # fmt: skip
