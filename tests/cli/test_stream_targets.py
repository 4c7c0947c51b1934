"""`recollect stream --target`: numbers and several labels in CSV and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Stream = Callable[..., Any]
X = np.random.default_rng(0).normal(size=(200, 2)).round(3)
VALUES = (20 + 3 * X[:, 0] - X[:, 1]).round(3)
SETS = [[n for n, has in (("red", a > 0), ("round", b > 0)) if has] for a, b in X]


def csv(path: str, header: str, labels: list[str]) -> str:
    rows = [f"{a},{b},{label}\n" for (a, b), label in zip(X, labels, strict=True)]
    Path(path).write_text(f"{header}\n{''.join(rows)}")
    return path


def jsonl(path: str, labels: list[Any]) -> str:
    rows = [{"a": a, "b": b, "label": y} for (a, b), y in zip(X.tolist(), labels, strict=True)]
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def predictions(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def test_numbers_are_learned_and_written_as_numbers(stream: Stream) -> None:
    labels = [f"{value}" for value in VALUES]
    labels[5] = ""  # not known: it is predicted, and not learned
    said = stream(csv("a.csv", "a,b,price", labels), "--target", "regression",
                  "--predictions", "p.jsonl")  # fmt: skip
    assert said.status == 0
    assert "199 examples, MAE" in said.out
    found = predictions("p.jsonl")
    assert [row["label"] for row in found[4:7]] == [VALUES[4], None, VALUES[6]]
    errors = [abs(row["predicted"] - row["label"]) for row in found[100:]]
    assert np.mean(errors) < VALUES.std() / 2


@pytest.mark.parametrize("bad", ["NaN", "many", "inf", "1e40"])
def test_what_is_not_a_usable_number_is_a_bad_row(stream: Stream, bad: str) -> None:
    labels = [f"{value}" for value in VALUES]
    labels[60] = bad
    path = csv("a.csv", "a,b,price", labels)
    said = stream(path, "--target", "regression")
    assert said.status != 0
    assert f"line 62: the label {bad!r} is" in said.err
    said = stream(path, "--target", "regression", "--skip-bad")
    assert said.status == 0
    assert "199 examples" in said.out


def test_lists_and_texts_of_labels_are_the_same(stream: Stream) -> None:
    texts = csv("a.csv", "a,b,label", ["|".join(each) or "|" for each in SETS])
    found = []
    for path in (texts, jsonl("a.jsonl", SETS)):
        said = stream(path, "--target", "labels", "--predictions", f"{path}.p")
        assert said.status == 0
        assert "200 examples, F1" in said.out
        rows = predictions(f"{path}.p")
        assert [row["label"] for row in rows] == SETS
        found.append((said.out, [row["predicted"] for row in rows]))
    assert found[0] == found[1]


def test_a_list_is_no_class_and_no_number(stream: Stream) -> None:
    path = jsonl("a.jsonl", SETS)
    said = stream(path)
    assert said.status != 0
    assert "(several: --target labels)" in said.err
    assert "is not a number" in stream(path, "--target", "regression").err
    nested = jsonl("b.jsonl", [[["red"]]] * 200)
    assert "a list of labels must have text and numbers" in stream(nested, "--target", "labels").err


@pytest.mark.parametrize("target", ["regression", "labels"])
def test_a_stream_goes_on_where_it_was_and_with_no_other_target(
    stream: Stream, target: str
) -> None:
    labels = VALUES.tolist() if target == "regression" else SETS
    whole = stream(jsonl("whole.jsonl", labels), "--target", target).out.splitlines()[-1]
    path = jsonl("a.jsonl", labels)
    lines = Path(path).read_text().splitlines(keepends=True)
    Path(path).write_text("".join(lines[:90]))
    assert stream(path, "--target", target).status == 0
    Path(path).write_text("".join(lines))
    assert "saved with --target" in stream(path).err
    said = stream(path, "--target", target)
    assert said.out.splitlines()[-1] == whole
