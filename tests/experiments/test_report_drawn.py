"""The report's figures: drawn from runs and from files, which are refused if damaged."""

from __future__ import annotations

import base64
import copy
import importlib.util
import json
import sys
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests.experiments.test_report import data_in, runs

from recollect import DataError, InputError
from recollect.cli.main import main
from recollect.experiments.figures.examples import BatchesData, Shown
from recollect.experiments.figures.fisher import Curve, FisherData
from recollect.experiments.figures.wall_clock import Bar, TimePanel, WallClockData
from recollect.experiments.report import build, drawn_in

drawn_here = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed here"
)

STEPS = tuple(range(1, 241))
IMAGE = ((0, 255, 7), (128, 0, 9))
FIGURES: dict[str, Any] = {
    "fisher": FisherData(
        "seq-mnist", 0.03, 5, (120, 240),
        (Curve("der-at-ends", 200, STEPS, tuple(k / 3 for k in STEPS), (0.1,) * 240, 85.925, 1.0),),
    ),
    "mnist-360": BatchesData("mnist-360", 0, (Shown((IMAGE,) * 9, (0, 1) * 4 + (0,)),) * 27),
    "wall-clock": WallClockData((TimePanel("one core", "µs", (Bar("er", 1.0, 2.0),)),), "A note."),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FIGURES.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(asdict(data)), "utf-8")
    return tmp_path


def unpacked(data: dict[str, Any]) -> dict[str, Any]:
    """The figures of a report by name, as its page reads them."""
    text = zlib.decompress(base64.b64decode(data["figures"]["drawn"]))
    return {figure["name"]: figure for figure in json.loads(text)}


@drawn_here
def test_what_was_written_is_drawn_as_svg(folder: Path) -> None:
    assert drawn_in(folder) == FIGURES
    figures = unpacked(build(runs(85.0, 86.0), drawn_in(folder)))
    (curve,) = figures["fisher"]["plots"]
    assert (curve["benchmark"], curve["buffer"]) == ("seq-mnist", 200)
    assert curve["legend"] == [["der-at-ends", "DER, logits at task ends (dashed)", "#f28e2b"]]
    last = curve["marks"][-1]
    assert last[3:] == [200, "after 240 steps: 80 ±0.1", "accuracy at the end 85.92 ±1.00"]
    assert len(curve["marks"]) <= 30
    (batches,) = figures["mnist-360"]["plots"]
    root = ElementTree.fromstring(batches["svg"])
    images = list(root.iter("{http://www.w3.org/2000/svg}image"))
    assert len(images) == 27
    assert all(image.attrib["href"].startswith("data:image/png;base64") for image in images)
    (bars,) = figures["wall-clock"]["plots"]
    assert bars["title"] == "one core"
    assert [mark[4:] for mark in bars["marks"]] == [["1 µs", "the slowest 2"]]


@drawn_here
def test_runs_are_drawn_and_what_has_no_runs_is_left_out() -> None:
    figures = unpacked(build(runs(85.0, 86.0)))
    assert [plot["title"] for plot in figures["memory"]["plots"]] == [
        "seq-mnist, Class-IL", "seq-mnist, Task-IL"
    ]  # fmt: skip
    assert figures["memory"]["plots"][0]["marks"][0][3:] == [
        200, "buffer 200", "85.50 ±0.71 over 2 seeds", "166 kB stored"
    ]  # fmt: skip
    assert list(figures) == ["memory", "time", "over-time", "transfer"]


def test_without_matplotlib_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    figures = build(runs(85.0))["figures"]
    assert figures["drawn"] == ""
    assert 'run pip install "recollect[figures]"' in figures["missing"]


def test_some_figures_are_enough_and_none_is_too_few(folder: Path) -> None:
    (folder / "fisher.json").unlink()
    assert sorted(drawn_in(folder)) == ["mnist-360", "wall-clock"]
    for name in ("mnist-360", "wall-clock"):
        (folder / f"{name}.json").unlink()
    with pytest.raises(InputError, match="recollect figures wall-clock fisher mnist-360 --format"):
        drawn_in(folder)
    with pytest.raises(InputError, match="there is no folder"):
        drawn_in(folder / "none")


def damaged(name: str) -> list[tuple[str, Any]]:
    """The figure without a field, or with one of another kind."""
    whole = json.loads(json.dumps(asdict(FIGURES[name])))
    found = [(field, {k: v for k, v in whole.items() if k != field}) for field in whole]
    junk: list[Any] = [None, [], {}, [1], True, "\ud800"]
    for field in whole:
        found += [(field, {**whole, field: each}) for each in junk]
    return found


@pytest.mark.parametrize("name", FIGURES)
def test_a_damaged_figure_is_refused_by_its_file_and_field(name: str, folder: Path) -> None:
    path = folder / f"{name}.json"
    for field, data in damaged(name):
        if (field, data.get(field)) == ("ends", [1]):
            continue
        path.write_text(json.dumps(data), "utf-8")
        with pytest.raises(DataError) as caught:
            drawn_in(folder)
        assert str(caught.value).startswith(str(path))
        assert repr(field) in str(caught.value)
    for text in ("", "[]", "{", "[" * 100_000):
        path.write_text(text, "utf-8")
        with pytest.raises(DataError):
            drawn_in(folder)


@pytest.mark.parametrize(
    ("name", "way", "junk"),
    [
        ("fisher", ("curves", 0, "mean"), [1.0]),
        ("fisher", ("curves", 0, "mean", 3), -1.0),
        ("fisher", ("curves", 0, "std", 3), float("nan")),
        ("fisher", ("curves", 0, "accuracy"), 101),
        ("mnist-360", ("batches", 3, "images", 2, 0, 1), 256),
        ("mnist-360", ("batches", 3, "images", 2, 0), [1]),
        ("mnist-360", ("batches", 3, "labels"), [1]),
        ("mnist-360", ("batches", 3, "images"), [[[1]]] * 10),
        ("wall-clock", ("panels", 0, "bars", 0, "least"), 0),
    ],
)
def test_what_could_not_be_drawn_is_refused(
    name: str, way: tuple[Any, ...], junk: Any, folder: Path
) -> None:
    whole = copy.deepcopy(json.loads(json.dumps(asdict(FIGURES[name]))))
    inside = whole
    for key in way[:-1]:
        inside = inside[key]
    inside[way[-1]] = junk
    (folder / f"{name}.json").write_text(json.dumps(whole), "utf-8")
    with pytest.raises(DataError, match=f"{name}.json is not a file of recollect figures"):
        drawn_in(folder)


@drawn_here
@pytest.mark.usefixtures("bare_machine")
def test_the_command_takes_figures_in(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "run seq-digits er --buffer 20 --seeds 1 --device cpu --workers 1 --json runs.json"
    assert main(words.split()) == 0
    words = f"report --from runs.json --figures {folder} --out"
    assert main([*words.split(), "with.html"]) == 0
    assert main(["report", "--from", "runs.json", "--out", "without.html"]) == 0
    pages = [Path(name).read_text("utf-8") for name in ("with.html", "without.html")]
    assert ["fisher" in unpacked(data_in(page)) for page in pages] == [True, False]
    assert main(["report", "--from", "runs.json", "--figures", "none"]) == 2
    assert "there is no folder 'none': correct --figures" in capsys.readouterr().err
