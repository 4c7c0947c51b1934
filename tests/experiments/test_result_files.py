"""Result files that were damaged: refused with the file, the run and the field; nothing goes in."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.experiments.some_results import with_provenance

from recollect import DataError
from recollect.cli.main import main
from recollect.experiments.files import read_json, write_runs
from recollect.experiments.report import build, render
from recollect.experiments.store import Store

RUN: dict[str, Any] = {
    "benchmark": "seq-mnist", "method": "derpp", "buffer": 200, "seed": 0,
    "hyperparameters": {"lr": 0.03, "alpha": 0.2, "beta": 1, "bs": 10, "mbs": 10},
    "accuracy": {"class": 85.0, "task": 98.8}, "fwt": {"class": -11.0, "task": None},
    "bwt": {"class": -16.0, "task": -0.5}, "forgetting": {"class": 16.0, "task": 0.5},
    "epochs": 1, "validation": False,
    "matrix": {"class": [[99.5, 1.5, None], [80.0, 90.0, 0.0], [70.0, 90.0, 95.0]]},
    "untrained": {"class": [1.0, 12.5, 30.0]},
    "train_seconds": 0.65, "steps": 6002, "memory_bytes": 166400, "diverged": False,
    "device": "CPU", "execution": "eager",
    "made": {"version": "0.1.0", "code": "abc", "machine": "m", "command": "c", "created": "2026"},
}  # fmt: skip
RUNS = [{**copy.deepcopy(RUN), "seed": seed} for seed in range(3)]
TEXTS = {"benchmark", "method", "device", "execution"}
TRUTHS = {"validation", "diverged"}
COUNTS = {"seed", "epochs", "steps", "memory_bytes"}
OPTIONAL = {"buffer", "untrained", "made"}
PERCENTAGES = {"accuracy", "fwt", "bwt", "forgetting", "matrix", "untrained"}

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None), max_size=5)
    | st.sampled_from([2**63, -(2**70), 10**400, "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=4,
)


def wrong(name: str, value: Any) -> bool:
    """Whether a value cannot be that field's, whatever else it is."""
    if value is None:
        return name not in OPTIONAL
    if name in TEXTS:
        return not isinstance(value, str) or "\ud800" in value
    if name in TRUTHS:
        return not isinstance(value, bool)
    if name == "buffer" or name in COUNTS:
        least = {"epochs": 1, "buffer": 1}.get(name, 0)
        return type(value) is not int or not least <= value < 2**63
    if name == "train_seconds":
        most = 2**63 if type(value) is int else math.inf  # JSON has whole numbers of any length
        return type(value) not in (int, float) or not 0 <= value < most
    return not isinstance(value, dict)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all numbers and nulls inside objects and lists."""
    if isinstance(value, dict):
        return [found for key, each in value.items() for found in leaves(each, (*path, key))]
    if isinstance(value, list):
        return [found for key, each in enumerate(value) for found in leaves(each, (*path, key))]
    return [path]


def refused(runs: list[Any], path: Path, number: int, name: str) -> None:
    """The file is not read, and a short sentence says where and why."""
    path.write_text(json.dumps(runs), "utf-8")
    with pytest.raises(DataError) as caught:
        read_json(path)
    said = str(caught.value)
    assert said.startswith(f"{path}, run {number + 1}: ")
    assert repr(name) in said
    assert len(said) < len(str(path)) + 200


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(number=st.integers(0, 2), name=st.sampled_from(list(RUN)), value=anything)
def test_a_field_of_another_type_is_named(
    number: int, name: str, value: Any, tmp_path: Path
) -> None:
    assume(wrong(name, value))
    runs = copy.deepcopy(RUNS)
    runs[number][name] = value
    refused(runs, tmp_path / "bad.json", number, name)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), number=st.integers(0, 2))
def test_a_number_deep_inside_is_checked_too(
    data: st.DataObject, number: int, tmp_path: Path
) -> None:
    nested = [name for name, value in RUN.items() if isinstance(value, dict)]
    *way, last = data.draw(st.sampled_from(leaves({name: RUN[name] for name in nested})))
    junk: list[Any] = [True, [], {}, float("inf"), float("nan"), 10**400]
    junk += ["7"] if way[0] != "made" else [7, None]
    junk += [100.5, -100.5] if way[0] in PERCENTAGES else []
    junk += [None] if way[0] in ("hyperparameters", "accuracy", "untrained") else []
    runs = copy.deepcopy(RUNS)
    inside: Any = runs[number]
    for key in way:
        inside = inside[key]
    inside[last] = data.draw(st.sampled_from(junk))
    refused(runs, tmp_path / "bad.json", number, way[0])


@pytest.mark.parametrize("name", [name for name in RUN if name != "made"])
def test_a_field_that_is_missing_or_unknown_is_named(name: str, tmp_path: Path) -> None:
    without = {key: value for key, value in RUN.items() if key != name}
    refused([RUN, without], tmp_path / "bad.json", 1, name)
    refused([{**RUN, f"{name}s": 1}], tmp_path / "bad.json", 0, f"{name}s")


def test_a_ragged_matrix_is_refused(tmp_path: Path) -> None:
    refused([{**RUN, "matrix": {"class": [[1.0, 2.0], [1.0]]}}], tmp_path / "x.json", 0, "matrix")


def test_the_entry_that_is_wrong_is_shown(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps([{**RUN, "accuracy": {"class": 85, "task": "98"}}]))
    with pytest.raises(
        DataError, match=r"'accuracy' must be an object of percentages or .*, not \{'task'"
    ):
        read_json(tmp_path / "x.json")


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.floats(0, 1), length=st.integers(0, 8), put=st.binary(max_size=6))
def test_what_is_read_from_a_damaged_file_can_be_reported(
    place: float, length: int, put: bytes, tmp_path: Path
) -> None:
    whole = json.dumps(RUNS[:2]).encode()
    start = int(place * len(whole))
    path = tmp_path / "damaged.json"
    path.write_bytes(whole[:start] + put + whole[start + length :])
    try:
        found = read_json(path)
    except DataError:
        return
    (tmp_path / "x.sqlite").unlink(missing_ok=True)
    store = Store(tmp_path / "x.sqlite")
    store.add(found)
    assert len(store.runs()) >= 1
    render(build(found))


@pytest.mark.usefixtures("bare_machine")
def test_one_bad_file_keeps_all_of_them_out(capsys: pytest.CaptureFixture[str]) -> None:
    Path("good.json").write_text(json.dumps(RUNS))
    Path("bad.json").write_text(json.dumps([RUN, {**RUN, "seed": "one"}]))
    assert main(["results", "--import", "good.json", "bad.json"]) == 2
    assert capsys.readouterr().err == (
        "recollect: bad.json, run 2: 'seed' must be an integer of at least 0, not 'one'\n"
    )
    assert Store().runs() == []
    assert main(["results", "--import", "good.json"]) == 0
    assert [run.seed for run in Store().runs()] == [0, 1, 2]


def lines_of(runs: list[Any]) -> str:
    return "".join(json.dumps(run) + "\n" for run in runs)


def test_json_lines_are_read_as_a_list_is(tmp_path: Path) -> None:
    listed, lines = tmp_path / "runs.json", tmp_path / "runs.jsonl"
    listed.write_text(json.dumps(RUNS), "utf-8")
    lines.write_text(lines_of(RUNS), "utf-8")
    assert read_json(lines) == read_json(listed)
    assert len(read_json(lines)) == 3
    # A line that is empty or missing its end does no harm.
    lines.write_text(lines_of(RUNS).replace("\n", "\n\n").rstrip("\n"), "utf-8")
    assert read_json(lines) == read_json(listed)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (
            '{"benchmark": "seq-mnist"',
            "line 2 is not a results file as --json writes it: it is not ",
        ),
        ("[1, 2]", "line 2: not a run as --json writes it: [1, 2] is not an object"),
        (json.dumps({**RUN, "seed": -1}), "line 2: 'seed' must be an integer of at least 0"),
        (json.dumps({**RUN, "hops": 1}), "line 2: not a run as --json writes it: 'hops' is unk"),
    ],
)
def test_a_damaged_line_is_named(second: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(f"{json.dumps(RUN)}\n{second}\n{json.dumps(RUN)}\n", "utf-8")
    with pytest.raises(DataError) as caught:
        read_json(path)
    assert str(caught.value).startswith(f"{path}, {said}")


def test_a_folder_has_the_runs_of_all_its_files(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text(lines_of(RUNS[2:]), "utf-8")
    (tmp_path / "a.json").write_text(json.dumps(RUNS[:2]), "utf-8")
    (tmp_path / "README.md").write_text("not a run", "utf-8")
    assert [run.seed for run in read_json(tmp_path)] == [0, 1, 2]


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no results: it has no \*\.jsonl or \*\.json file"):
        read_json(tmp_path)


def test_lines_are_rounded_and_read_back(tmp_path: Path) -> None:
    exact = copy.deepcopy(RUN)
    exact["accuracy"]["class"] = 84.123456789
    exact["matrix"]["class"][1][0] = 80.00004999
    exact["hyperparameters"]["lr"] = 0.0123456789
    source, target = tmp_path / "runs.json", tmp_path / "runs.jsonl"
    source.write_text(json.dumps([exact]), "utf-8")
    write_runs(target, read_json(source))
    (run,), (before,) = read_json(target), read_json(source)
    assert run.accuracy["class"] == 84.1235
    assert run.matrix["class"] == [[99.5, 1.5, None], [80.0, 90.0, 0.0], [70.0, 90.0, 95.0]]
    assert run.hyperparameters == before.hyperparameters
    assert (run.provenance, run.identity) == (before.provenance, before.identity)
    assert target.read_text("utf-8").count("\n") == 1


def test_a_store_is_written_as_lines_and_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = tmp_path / "runs.json", tmp_path / "runs.jsonl"
    source.write_text(json.dumps(RUNS), "utf-8")
    first, second = ["--store", str(tmp_path / "a")], ["--store", str(tmp_path / "b")]
    assert main(["results", "--import", str(source), "--export", str(target), *first]) == 0
    assert main(["results", "--import", str(target), *second]) == 0
    again, before = (with_provenance(Store(tmp_path / name).runs()) for name in "ba")
    assert again == before
    assert "3 runs written" in capsys.readouterr().err


def test_a_file_that_begins_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    for name, text in (("a.json", json.dumps(RUNS)), ("a.jsonl", lines_of(RUNS))):
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert [run.seed for run in read_json(tmp_path / name)] == [0, 1, 2]


FOREIGN: dict[str, bytes] = {
    "package.json": b'{"name": "page"}', "numbers.json": b"[1, 2]", "points.json": b'[{"x": 1}]',
    "settings.json": b"// not JSON", "log.jsonl": b'{"step": 1}\n', "binary.json": b"\xff\xfe",
}  # fmt: skip


def test_files_of_a_folder_that_hold_something_else_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "runs.json").write_text(json.dumps(RUNS), "utf-8")
    for name, data in FOREIGN.items():
        (tmp_path / name).write_bytes(data)
    said: list[str] = []
    assert [run.seed for run in read_json(tmp_path, said.append)] == [0, 1, 2]
    assert len(said) == len(FOREIGN)
    for line, name in zip(said, sorted(FOREIGN), strict=True):
        assert line.startswith(f"skipped: {tmp_path / name}")
    with pytest.warns(UserWarning, match="skipped: "):
        read_json(tmp_path)
    (tmp_path / "runs.json").unlink()
    with pytest.raises(DataError, match="has no results: none of its files contains runs"):
        read_json(tmp_path, said.append)


@pytest.mark.usefixtures("bare_machine")
def test_a_command_says_which_files_of_a_folder_it_skips(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("runs").mkdir()
    Path("runs/a.json").write_text(json.dumps(RUNS), "utf-8")
    Path("runs/package.json").write_text("{}", "utf-8")
    for words in (["results", "--import", "runs"], ["report", "--from", "runs"]):
        assert main(words) == 0
        assert "skipped: runs/package.json" in capsys.readouterr().err
    assert len(Store().runs()) == 3


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", json.dumps([RUN, 5])),
        ("a.json", json.dumps([{**RUN, "seed": "one"}])),
        ("a.jsonl", lines_of([RUN]) + '{"benchmark": "seq-m'),
    ],
)
def test_a_damaged_file_of_runs_is_not_skipped(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text(json.dumps(RUNS), "utf-8")
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(DataError, match=name):
        read_json(tmp_path)
