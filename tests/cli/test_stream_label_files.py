"""`recollect stream --labels`: the files of labels, what is refused, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Stream = Callable[..., Any]

JOIN = ("--id", "request", "--labels", "labels.csv")


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("r7\n", "it has 1 column, not 2"),
        (",hot\n", "it has no id"),
        ("r7,\n", "it has no label"),
        ("r7,0.731\n", "0.731"),
        (f"{'r' * 1001},hot\n", "an id must be a number or a text of at most 1000 characters"),
    ],
)
def test_bad_rows_of_labels_are_named_or_left_out(
    bad: str, why: str, stream: Stream, files: Any
) -> None:
    files(40, lambda rows: [*rows[:25], bad, *rows[25:]])
    said = stream("requests.csv", *JOIN)
    assert said.status == 2
    assert "labels.csv, line 27" in said.err
    assert why in said.err
    said = stream("requests.csv", *JOIN, "--skip-bad")
    assert said.status == 0
    assert "rows left out because they could not be read: 1" in said.err
    assert "40 learned" in said.err


def test_formats_may_differ_and_columns_have_other_names(stream: Stream, files: Any) -> None:
    rows, labels = files(40)
    numbered = "".join(row.removeprefix("r") for row in rows)
    Path("requests.csv").write_text(f"request,a,b,c\n{numbered}")
    pairs = [row.strip().split(",") for row in labels]
    lines = [{"of": int(n[1:]), "when": "today", "outcome": kind} for n, kind in pairs]
    Path("labels.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    words = ("--id", "request", "--labels", "labels.jsonl", "--labels-id", "of")
    said = stream("requests.csv", *words, "--labels-label", "outcome")
    assert "40 learned; 0 examples still wait" in said.err


def test_a_row_with_its_own_label_is_learned_at_once(stream: Stream, files: Any) -> None:
    rows, _ = files(40)
    own = [f"{row.strip()},{'hot' if n < 10 else ''}\n" for n, row in enumerate(rows)]
    Path("requests.csv").write_text("".join(["request,a,b,c,kind\n", *own]))
    said = stream("requests.csv", *JOIN, "--label", "kind")
    assert "30 learned, 10 repeated; 0 examples still wait" in said.err
    assert "40 examples" in said.out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--labels", "labels.csv"), "--labels are matched by id"),
        (("--labels-id", "x"), "--labels-id needs --labels FILE"),
        (("--pending", 5), "--pending needs --labels FILE"),
        ((*JOIN, "--pending", 0), "--pending must be at least 1, not 0"),
        (("--id", "request", "--labels", "none.csv"), "there is no file or folder"),
        (("--id", "request", "--labels", "requests.csv"), "the same source is given twice"),
        (
            (*JOIN, "--labels-id", "order"),
            "labels.csv: there is no column 'order' (columns: request, kind)",
        ),
        ((*JOIN, "--predictions", "labels.csv", "--force"), "would overwrite the source"),
    ],
)
def test_refusals(words: tuple[Any, ...], why: str, stream: Stream, files: Any) -> None:
    files(20)
    said = stream("requests.csv", *words)
    assert said.status == 2
    assert why in said.err
    assert not [*Path().glob("**/*.recollect")], "the right words need not start over"


def test_a_state_is_continued_with_the_same_labels_and_room(stream: Stream, files: Any) -> None:
    files(20)
    words = ("requests.csv", "--id", "request", "--checkpoint", "state")
    assert stream(*words, "--labels", "labels.csv").status == 0
    said = stream(*words, "--labels", "labels.csv", "--pending", 7)
    assert "was saved with --pending 10000, not with --pending 7" in said.err
    said = stream(*words)
    assert said.status == 2
    assert "--labels" in said.err


def test_ids_that_never_meet_are_told(stream: Stream, files: Any) -> None:
    files(40, lambda rows: [row.replace(",", ".0,") for row in rows])
    said = stream("requests.csv", *JOIN)
    assert said.status == 0
    assert "0 learned; 40 examples still wait for a label, 40 labels for an example" in said.err
    assert "no label matches an example" in said.err
    files(40)
    assert "no label found" not in stream("requests.csv", *JOIN, "--fresh").err
