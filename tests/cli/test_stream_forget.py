"""Removing examples from the state of a stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Stream = Callable[..., Any]
Files = Callable[..., Any]

MIXED = ("mixed.csv", "--id", "user", "--checkpoint", "state")


@pytest.fixture
def mixed(bare_machine: None) -> None:
    """Rows with numbers, missing values and categories; u1 has a value that is found in files."""
    rows = [
        f"u{n % 10},{123.4567 if n % 10 == 1 else n % 7},{'' if n % 9 == 0 else n % 5},"
        f"{'red' if n % 3 else 'blue'},{'xy'[n % 2]}\n"
        for n in range(200)
    ]
    Path("mixed.csv").write_text("user,a,b,colour,kind\n" + "".join(rows))


def checkpoints() -> list[Path]:
    return sorted(Path("state").glob("*.recollect"))


def mentions(word: str) -> bool:
    texts = [path.read_bytes().replace(b"\\", b"") for path in checkpoints()]
    return any(f'"{word}"'.encode() in text for text in texts)


def test_ids_are_removed_from_a_table_of_all_kinds_of_columns(stream: Stream, mixed: None) -> None:
    assert stream(*MIXED, "--every", 5, "--on-outlier", "learn").status == 0
    assert len(checkpoints()) > 1
    assert mentions("u1")
    said = stream(*MIXED, "--on-outlier", "learn", "--forget", "u1", "nobody")
    assert said.status == 0
    assert "examples removed from memory.\n" in said.out
    assert "Neither in memory nor waiting for a label: 'nobody'." in said.out
    assert said.out.endswith("checkpoints are deleted; the sources and the predictions are "
                             "unchanged.\n")  # fmt: skip
    assert len(checkpoints()) == 1
    assert not mentions("u1")
    with Path("mixed.csv").open("a") as file:
        file.write("u3,1,2,red,x\n")
    said = stream(*MIXED, "--on-outlier", "learn")
    assert "continuing after 200 examples" in said.err
    assert "201 examples" in said.out


def test_examples_that_wait_for_a_label(stream: Stream, files: Files) -> None:
    words = ("requests.csv", "--id", "request", "--labels", "labels.csv", "--checkpoint", "state")
    files(60, lambda rows: [*rows[:40], rows[55].replace("r55", "r99")])
    assert "20 examples still wait" in stream(*words).err
    assert mentions("r50")
    said = stream(*words, "--forget", "r50", "r99")
    assert said.status == 0
    assert "0 examples removed from memory, and 2 that waited for a label." in said.out
    assert not mentions("r50")
    assert not mentions("r99")
    said = stream(*words)
    assert "19 examples still wait" in said.err


def test_the_predictions_are_unchanged(stream: Stream, mixed: None) -> None:
    stream(*MIXED, "--predictions", "p")
    before = Path("p").read_bytes()
    assert stream(*MIXED, "--predictions", "p", "--forget", "u1").status == 0
    assert Path("p").read_bytes() == before
    assert json.loads((Path("state") / "stream.json").read_text())["settings"]["id"] == "user"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--id", "user"), "there is no saved state in"),
        ((), "--forget removes examples by id: give the id column or key with --id"),
        (("--id", "user", "--fresh"), "which --fresh ignores: leave out one"),
    ],
)
def test_what_cannot_be_forgotten(
    words: tuple[str, ...], message: str, stream: Stream, mixed: None
) -> None:
    said = stream("mixed.csv", *words, "--forget", "u1")
    assert said.status == 2
    assert message in said.err
    assert [path.name for path in Path().iterdir()] == ["mixed.csv"], "nothing is written"
