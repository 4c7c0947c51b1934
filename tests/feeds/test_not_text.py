"""Files that are not UTF-8 text with lines: an error says what they are, also with `skip_bad`."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recollect.errors import DataError
from recollect.feeds import Reading, open_feed

Kind = Literal["csv", "jsonl"]
TEXTS: dict[Kind, str] = {"csv": "v,kind\n1,x\n", "jsonl": '{"v": 1, "label": "x"}\n'}


def zipped(text: bytes) -> bytes:
    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        archive.writestr("rows", text)
    return file.getvalue()


def parquet(text: bytes) -> bytes:
    pq.write_table(pa.table({"v": [1], "kind": ["x"]}), file := io.BytesIO())
    return file.getvalue()


def refused(path: Path, content: bytes, kind: Kind, why: str) -> None:
    path.write_bytes(content)
    for skip_bad in (False, True):
        with pytest.raises(DataError, match=f"^{path} {why}") as error:
            [*open_feed(path, Reading(kind=kind, skip_bad=skip_bad)).records()]
        assert "skip_bad" not in str(error.value)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_other_formats(kind: Kind, tmp_path: Path) -> None:
    text = TEXTS[kind].encode()
    for packed, command in [
        (gzip.compress(text), "gunzip -c"), (bz2.compress(text), "bunzip2 -c"),
        (lzma.compress(text), "xz -dc"), (zipped(text), "unzip -p"),
        (b"\x28\xb5\x2f\xfd" + text, "zstd -dc"),
    ]:  # fmt: skip
        refused(tmp_path / "f", packed, kind, f"is compressed: .* the output of {command} to")
    refused(tmp_path / "f", TEXTS[kind].encode("utf-16"), kind, "is UTF-16 text: convert it")
    refused(tmp_path / "f", parquet(text), kind, "is a Parquet file: give kind='parquet'")


def test_carriage_returns_only(tmp_path: Path) -> None:
    why = r"has lines that end with \\r only: convert it"
    refused(tmp_path / "f", b"v,kind\r1,x\r2,y\r", "csv", why)


@pytest.mark.parametrize("text", ['[{"v": 1, "label": "x"}]', '[\n {"v": 1, "label": "x"}\n]'])
def test_a_json_array(text: str, tmp_path: Path) -> None:
    refused(tmp_path / "f.json", text.encode(), "jsonl", r"is one JSON array: .* jq -c '\.\[\]'")


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_byte_order_mark_of_an_appended_file_is_ignored(kind: Kind, tmp_path: Path) -> None:
    text = TEXTS[kind].encode("utf-8-sig")
    (tmp_path / "f").write_bytes(text + text)
    feed = open_feed(tmp_path / "f", Reading(kind=kind, skip_bad=True))
    assert [record.label for record in feed.records() if record] == ["x", "x"]
    assert feed.faults.count == (kind == "csv")  # the repeated header
