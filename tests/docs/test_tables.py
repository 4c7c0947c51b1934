"""The figures of the documentation are those of the runs in results/, and those of its commands."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import ROOT
from tools import collect, evidence, manifest, tables
from tools.collect import missing
from tools.manifest import FOLDER, MANIFEST

from recollect import InputError
from recollect.cli.main import main
from recollect.experiments.files import read_json

FILES = sorted(FOLDER.glob("*.jsonl"))
LARGEST = 5_000_000


@pytest.fixture(scope="module")
def known() -> evidence.Evidence:
    return evidence.Evidence()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_there_are_runs_and_pages_made_of_them() -> None:
    assert FILES
    names = {page.relative_to(ROOT).as_posix() for page in tables.pages()}
    assert {"README.md", "docs/results.md", "docs/results/seq-mnist.md", "docs/methods/er.md",
            "docs/benchmarks/seq-mnist.md", "docs/figures.md", "docs/faq.md"} <= names  # fmt: skip


@pytest.mark.parametrize("page", tables.pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_is_what_its_runs_make_of_it(page: Path, known: evidence.Evidence) -> None:
    text = page.read_text("utf-8")
    assert tables.filled(text, known) == text, "run `make tables`, and edit nothing by hand"


def test_what_was_edited_by_hand_is_put_right(known: evidence.Evidence) -> None:
    text = (ROOT / "docs/results/seq-mnist.md").read_text("utf-8")
    wrong = text.replace("| SGD | - |", "| SGD | 5 |")
    assert wrong != text
    assert tables.filled(wrong, known) == text
    with pytest.raises(InputError, match="there is no table 'accuracies': give one of accuracy, "):
        tables.filled("<!-- table: accuracies seq-mnist --><!-- end -->", known)


def test_a_mean_on_a_page_is_that_of_the_file() -> None:
    runs = [run for run in lines(FOLDER / "seq-mnist.jsonl") if run["method"] == "sgd"]
    values = [run["accuracy"]["class"] for run in runs]
    row = f"| SGD | - | 10 | {statistics.mean(values):.2f} ±{statistics.stdev(values):.2f} |"
    assert len(values) == 10
    assert row in (ROOT / "docs/results/seq-mnist.md").read_text("utf-8")
    assert row in (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_runs_are_read_and_say_where_they_are_from(file: Path) -> None:
    for run in read_json(file):
        made = run.provenance
        assert made.version, run
        assert made.machine, run
        assert made.created, run
        assert re.fullmatch(r"[0-9a-f]{12}", run.code), run
        assert made.command.startswith("recollect "), run
        assert "/" not in made.command, "a command names no place of the machine that ran it"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_run_is_made_by_a_command_of_the_manifest(file: Path) -> None:
    found = [(manifest.asked(run.identity), run.code) for run in read_json(file)]
    assert len({key for key, _ in found}) == len(found)
    made_by = {key: line for line in manifest.read() for key in line.run_keys()
               if line.file == file.name}  # fmt: skip
    codes: dict[str, set[str]] = {}
    for key, code in found:
        assert key in made_by, f"no command of {MANIFEST.name} makes a run of {file.name}"
        codes.setdefault(made_by[key].command, set()).add(code)
    for command, several in codes.items():
        assert len(several) == 1, f"{command}: runs of {len(several)} codes are mixed"


@pytest.mark.parametrize("line", manifest.read(), ids=lambda line: line.command)
def test_the_manifests_commands_are_understood(line: manifest.Line) -> None:
    assert line.command == collect.plain(line.command)
    assert line.makes_runs == bool(line.run_keys())
    assert f"`{line.file}`" in (FOLDER / "README.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "epochs"),
    [("seq-mnist", None), ("perm-mnist", None), ("rot-mnist", None), ("mnist-360", None),
     ("seq-cifar10", None), ("seq-cifar10", 1), ("seq-tiny-imagenet", 1)],
)  # fmt: skip
def test_the_manifest_has_every_published_accuracy(
    name: str, epochs: int | None, known: evidence.Evidence
) -> None:
    for cell in evidence.printed(name, epochs=epochs):
        assert known.is_planned(name, cell.method, cell.buffer, epochs), cell


def test_figures_of_the_paper_are_counted_once() -> None:
    mnist = ("seq-mnist", "perm-mnist", "rot-mnist", "mnist-360")
    assert sum(len(evidence.printed(name)) for name in mnist) == 143
    scores = ("fwt", "bwt", "forgetting")
    assert sum(len(evidence.printed(name, score)) for name in mnist for score in scores) == 362


def test_collecting_the_same_runs_again_changes_nothing(tmp_path: Path) -> None:
    for file in FILES:
        (tmp_path / file.name).write_bytes(file.read_bytes())
    collect.collect(FILES, tmp_path)
    for file in FILES:
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()


def test_the_order_in_which_runs_come_does_not_matter(tmp_path: Path) -> None:
    runs = lines(FOLDER / "seq-mnist.jsonl")
    for number, some in enumerate([runs[25:], runs[:30]]):
        source = tmp_path / f"{number}.json"
        source.write_text(json.dumps(some), "utf-8")
        collect.collect([source], tmp_path)
    assert (tmp_path / "seq-mnist.jsonl").read_bytes() == (FOLDER / "seq-mnist.jsonl").read_bytes()


def test_a_newer_run_replaces_the_one_that_is_there_and_stale_ones_go(tmp_path: Path) -> None:
    first, second, third = lines(FOLDER / "seq-mnist.jsonl")[:3]
    stale = {**second, "hyperparameters": {"lr": 0.5, "bs": 10}}
    there = tmp_path / "seq-mnist.jsonl"
    there.write_text("".join(json.dumps(run) + "\n" for run in (first, stale, third)), "utf-8")
    newer = {**first, "train_seconds": 1.5}
    newer["made"] = {
        **first["made"],
        "command": "recollect run seq-mnist sgd --store /a/b --json c",
    }
    (tmp_path / "new.json").write_text(json.dumps([newer]), "utf-8")
    assert collect.collect([tmp_path / "new.json"], tmp_path) == [
        f"{there}: 0 runs added, 1 replaced, 1 removed, 2 in all"
    ]
    found = lines(there)
    assert [run["seed"] for run in found] == [0, 2]
    assert found[0]["train_seconds"] == 1.5
    assert found[0]["made"]["command"] == "recollect run seq-mnist sgd"


@pytest.mark.parametrize(
    ("change", "said"),
    [({"seed": 99}, "no command of .* makes this run: seq-mnist joint, buffer None, seed 99"),
     ({"made": None}, "it has no command in its provenance"),
     ({"accuracy": {"class": 99.9, "task": 99.9}}, "not the mean of its matrix's last row")],
)  # fmt: skip
def test_runs_without_a_command_are_refused(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    run = {**lines(FOLDER / "seq-mnist.jsonl")[0], **change}
    (tmp_path / "odd.json").write_text(json.dumps([run]), "utf-8")
    with pytest.raises(InputError, match=said):
        collect.collect([tmp_path / "odd.json"], tmp_path)
    assert not (tmp_path / "seq-mnist.jsonl").exists()


@pytest.mark.parametrize("commit", ["", "0" * 40, "{}+changes"])
def test_runs_of_another_commit_are_refused(commit: str, tmp_path: Path) -> None:
    run = lines(FOLDER / "seq-mnist.jsonl")[0]
    run["made"]["commit"] = commit.format(run["made"]["commit"])
    (tmp_path / "odd.json").write_text(json.dumps([run]), "utf-8")
    with pytest.raises(InputError, match="made it, and the manifest names"):
        collect.collect([tmp_path / "odd.json"], tmp_path)


def test_an_older_run_does_not_replace_a_newer_one(tmp_path: Path) -> None:
    run = lines(FOLDER / "seq-mnist.jsonl")[0]
    (tmp_path / "seq-mnist.jsonl").write_text(json.dumps(run) + "\n", "utf-8")
    run["made"]["created"] = "2020-01-01T00:00:00+00:00"
    (tmp_path / "old.json").write_text(json.dumps([run]), "utf-8")
    with pytest.raises(InputError, match="is newer"):
        collect.collect([tmp_path / "old.json"], tmp_path)


def test_what_is_missing_is_counted(tmp_path: Path) -> None:
    plan = tmp_path / "manifest.txt"
    plan.write_text(f"commit {'a' * 40}\n"
                    "seq-mnist.jsonl: recollect reproduce seq-mnist --methods sgd --seeds 12\n"
                    "seq-mnist.jsonl: recollect reproduce seq-mnist --methods sgd --seeds 10\n"
                    "figures/none.json: recollect figures fisher\n")  # fmt: skip
    found = [(line.command, left, wanted) for line, left, wanted in missing(FOLDER, plan)]
    assert found == [
        ("recollect reproduce seq-mnist --methods sgd --seeds 12", 2, 12),
        ("recollect figures fisher", 1, 1),
    ]
    plan.write_text("seq-mnist.jsonl: recollect reproduce seq-mnist --methods sgd\n")
    with pytest.raises(InputError, match="line 1: give `commit HASH` first"):
        manifest.read(plan)


def test_one_command_shows_every_run_and_leaves_the_store_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RECOLLECT_STORE", str(tmp_path / "store.sqlite"))
    page = tmp_path / "report.html"
    assert main(["report", "--from", str(FOLDER), "--out", str(page)]) == 0
    count = sum(len(lines(file)) for file in FILES)
    assert f"{page}: {count} runs in " in capsys.readouterr().out
    assert page.stat().st_size < LARGEST
    assert not (tmp_path / "store.sqlite").exists()
    ours = (file for file in FOLDER.rglob("*") if ".sqlite" not in file.name)  # a tool's own store
    assert sum(file.stat().st_size for file in ours) < LARGEST
