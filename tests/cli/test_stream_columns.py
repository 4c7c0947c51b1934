"""`recollect stream` on columns as they are: holes, categories, text, ids."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.test_stream_resume import Killed, killed, state

Stream = Callable[..., Any]
Told = Callable[[str | Path], list[dict[str, Any]]]

__all__ = ["killed"]  # a fixture


def table(count: int, seed: int) -> list[dict[str, Any]]:
    """Rows of six numbers in different units and two categories, of three kinds in turn."""
    rng = np.random.default_rng(seed)
    kinds = np.arange(count) * 6 // count % 3
    centres = rng.normal(size=(3, 6)) * 1.5
    x = (centres[kinds] + rng.normal(size=(count, 6))) * [1, 10, 1e3, 1, 0.1, 1e6] + 50
    near = rng.random(count) < 0.7
    colours = np.where(near, kinds, rng.integers(0, 3, count))
    cities = rng.integers(0, 12, count)
    return [
        {**{f"v{n}": round(float(v), 6) for n, v in enumerate(row)},
         "colour": ("red", "green", "blue")[colour], "city": f"city {city}",
         "kind": "abc"[kind]}
        for row, colour, city, kind in zip(x, colours, cities, kinds, strict=True)
    ]  # fmt: skip


def holed(rows: list[dict[str, Any]], seed: int, share: float = 0.05) -> list[dict[str, Any]]:
    """The same rows with a share of all cells missing, but for the label."""
    rng = np.random.default_rng(seed)
    return [
        {name: None if name != "kind" and rng.random() < share else value
         for name, value in row.items()}
        for row in rows
    ]  # fmt: skip


def written(path: str, rows: list[dict[str, Any]]) -> str:
    lines = [",".join(rows[0])]
    lines += [",".join("" if v is None else str(v) for v in row.values()) for row in rows]
    Path(path).write_text("\n".join(lines) + "\n")
    return path


def accuracy(said: Any) -> float:
    found = re.search(r"^all\s+([\d.]+) %$", said.out, re.M)
    assert found, said.err
    return float(found[1])


def test_holes_cost_less_than_two_points_and_nothing_is_dropped(stream: Stream, told: Told) -> None:
    rows = table(3000, 0)
    whole = stream(written("whole.csv", rows))
    said = stream(written("holes.csv", holed(rows, 1)), "--predictions", "p.jsonl")
    assert len(told("p.jsonl")) == 3000
    assert "3,000 examples" in said.out
    assert "left out" not in said.err
    assert "from 6 numbers (v0?, v1?, v2?, v3?, v4?, v5?), 2 categories (colour, city)" in said.err
    assert accuracy(whole) - accuracy(said) < 2
    assert accuracy(whole) > 60, "there is something to learn"


def test_every_format_has_the_same_features(stream: Stream, told: Told) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = holed(table(300, 2), 3, 0.1)
    rows = [{**row, "on": number % 3 == 0} for number, row in enumerate(rows)]
    Path("a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), "a.parquet")
    written("a.csv", rows)
    outputs = []
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        said = stream(name, "--label", "kind", "--predictions", f"{name}.out")
        assert said.status == 0, said.err
        outputs.append([{**line, "line": 0} for line in told(f"{name}.out")])
    assert outputs[0] == outputs[1] == outputs[2]


def test_a_kill_does_not_change_vocabularies_and_medians(
    stream: Stream, told: Told, killed: Callable[[int], None]
) -> None:
    rows = holed(table(200, 4), 5, 0.2)
    for number, row in enumerate(rows):  # a new city every ten rows, and more than there are inputs
        row["city"] = f"city {number // 10}"
    path = written("a.csv", rows)
    words = ("--label", "kind", "--categories", 5, "--skip-bad", "--predictions")
    assert stream(path, *words, "whole.jsonl", "--checkpoint", "whole").status == 0
    for batches in (1, 3, 2, 5, 4):
        killed(batches)
        with pytest.raises(Killed):
            stream(path, *words, "parts.jsonl", "--checkpoint", "parts", "--every", 2)
    killed(1000)
    said = stream(path, *words, "parts.jsonl", "--checkpoint", "parts", "--every", 2)
    assert said.status == 0
    assert Path("parts.jsonl").read_bytes() == Path("whole.jsonl").read_bytes()
    assert state(Path("parts")) == state(Path("whole"))


def test_text_and_times_are_refused_with_advice_or_left_out(stream: Stream) -> None:
    rows = [f"2026-01-{n % 28 + 1:02},note {n},{n % 5},{'xy'[n % 2]}\n" for n in range(60)]
    Path("a.csv").write_text("day,note,v,kind\n" + "".join(rows))
    said = stream("a.csv")
    assert said.status == 2
    assert "column 'day' has times, such as '2026-01-01'" in said.err
    assert "--ignore 'day' leaves it out, --drop-text all such columns" in said.err
    said = stream("a.csv", "--ignore", "day")
    assert "column 'note' has text" in said.err
    assert "--id 'note' passes it through, and --categorical 'note' makes it" in said.err
    said = stream("a.csv", "--drop-text")
    assert (said.status, said.err) == (0, "recollect: learning 'kind' from 1 number (v)\n")


def test_other_delimiters_and_decimal_commas_are_refused_with_advice(stream: Stream) -> None:
    Path("a.csv").write_text("v;w;kind\n" + "1,5;2;x\n0,5;3;y\n" * 10)
    said = stream("a.csv", "--label", "kind")
    assert said.status == 2
    assert "a.csv does not contain ',', but ';': give --delimiter ';'" in said.err
    said = stream("a.csv", "--delimiter", ";")
    assert said.status == 2
    assert "column 'v' has numbers with commas, such as '1,5'" in said.err
    assert "write 1,5 as 1.5, and 1,234.5 as 1234.5" in said.err
    assert stream("a.csv", "--delimiter", ";", "--categorical", "v").status == 0
    Path("b.txt").write_text("v\tkind\n" + "1\tx\n2\ty\n" * 10)
    assert "give --delimiter tab" in stream("b.txt").err
    assert stream("b.txt", "--delimiter", "tab").status == 0


def test_a_label_of_control_characters_is_printed_in_one_line(stream: Stream) -> None:
    Path("a.csv").write_text("v,kind\n" + '1,"a\nb"\n2,\x1b[31mred\n' * 10)
    said = stream("a.csv")
    assert "a\\nb " in said.out
    assert "\\x1b[31mred" in said.out
    assert "\x1b" not in said.out


def test_predictions_can_be_joined(stream: Stream, told: Told) -> None:
    rows = [f"u{n},{n % 7},{'x' if n == 5 else n % 3},note {n},{'ab'[n % 2]}\n" for n in range(40)]
    Path("a.csv").write_text("who,v,w,note,kind\n" + "".join(rows))
    words = ("--id", "who", "--keep", "note", "v", "--skip-bad", "--predictions", "p.jsonl")
    said = stream("a.csv", *words)
    assert said.status == 0, said.err
    assert "from 2 numbers (v, w)" in said.err
    lines = told("p.jsonl")
    assert len(lines) == 39
    for line in lines:
        number = line["n"] - 1
        assert line["id"] == f"u{number}"
        assert line["line"] == number + 2
        assert (line["note"], line["v"]) == (f"note {number}", str(number % 7))
        assert line["label"] == "ab"[number % 2]
    Path("b.csv").write_text("who,v,w,note,kind\nz,1,2,more,a\n")
    assert stream("a.csv", "b.csv", *words[:-1], "q.jsonl").status == 0
    assert [told("q.jsonl")[n]["source"][-5:] for n in (0, -1)] == ["a.csv", "b.csv"]


def test_nan_passes_through_as_null_and_is_no_label(stream: Stream) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    nan = float("nan")
    columns = {"who": [1.0, nan] * 10, "v": [1.0, 2.0] * 10, "more": [[nan], [1.0]] * 10}
    pq.write_table(pa.table({**columns, "kind": [0.0, 1.0, 1.0, nan] * 5}), "a.parquet")
    words = ("--id", "who", "--keep", "more", "--features", "v", "--predictions", "p.jsonl")
    said = stream("a.parquet", "--label", "kind", *words)
    assert said.status == 0, said.err
    assert "15 examples" in said.out

    def refused(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    lines = [
        json.loads(line, parse_constant=refused)
        for line in Path("p.jsonl").read_text().splitlines()
    ]
    assert [line["id"] for line in lines] == [1.0, None] * 10
    assert [line["more"] for line in lines] == [[None], [1.0]] * 10
    assert [line["label"] for line in lines] == [0, 1, 1, None] * 5


def test_a_file_of_somebody_else_is_not_overwritten(stream: Stream, told: Told) -> None:
    path = written("a.csv", table(40, 0))
    Path("README.md").write_text("mine\n")
    said = stream(path, "--predictions", "README.md")
    assert said.status == 2
    assert "exists and would be overwritten: choose another name, or use --force" in said.err
    assert Path("README.md").read_text() == "mine\n"
    assert not Path(".recollect").exists()
    assert stream(path, "--predictions", "README.md", "--force").status == 0
    assert len(told("README.md")) == 40
    assert stream(path, "--predictions", "README.md", "--fresh").status == 0, "it is its own"
    assert stream(path, "--predictions", "README.md").status == 0
    said = stream(path, "--predictions", "README.md", "--checkpoint", "other")
    assert said.status == 2


def test_new_keys_and_late_holes_are_told_once(stream: Stream) -> None:
    lines = [{"a": n % 5, "b": n % 3, "kind": "xy"[n % 2]} for n in range(1000)]
    lines += [{"a": 1, "kind": "x", "more": 3}] * 20
    Path("a.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    said = stream("a.jsonl", "--label", "kind")
    assert said.status == 0
    assert said.err.count("the new key 'more' is ignored") == 1
    assert said.err.count("column 'b' has its first missing value") == 1
    assert "1,020 examples" in said.out


def test_a_column_that_vanishes_or_changes_is_named(stream: Stream) -> None:
    Path("a.csv").write_text("v,w,kind\n" + "1,2,x\n3,4,y\n" * 10)
    Path("b.csv").write_text("v,u,kind\n1,2,x\n")
    said = stream("a.csv", "b.csv")
    assert said.status == 2
    assert "w missing; u new" in said.err
    Path("c.csv").write_text("v,w,kind\n1,red,x\n")
    said = stream("a.csv", "c.csv", "--label", "kind")
    assert "c.csv, line 2: 'red' in column 'w' is not a number" in said.err
    assert "--categorical 'w' makes it categorical" in said.err


def test_a_column_without_a_name_is_pointed_out(stream: Stream) -> None:
    rows = [f"{n},{n % 7}.5,{'ab'[n % 2]}\n" for n in range(20)]
    Path("index.csv").write_text(",v,kind\n" + "".join(rows))  # as pandas writes its row index
    assert "column 1 has no name, so it may be a row index" in stream("index.csv").err
    said = stream("index.csv", "--ignore", "1", "--fresh")
    assert "no name" not in said.err
    assert "from 1 number (v)" in said.err
