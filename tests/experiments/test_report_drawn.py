"""Figures that recollect figures wrote: as the page wants them, or refused by their file."""

from __future__ import annotations

import base64
import copy
import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from recollect import DataError, InputError
from recollect.cli.main import main
from recollect.experiments.figures.fisher import Curve, FisherData
from recollect.experiments.figures.mnist360 import BatchesData, Shown
from recollect.experiments.figures.wall_clock import Bar, TimePanel, WallClockData
from recollect.experiments.report import drawn_in

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


def test_curves_keep_their_end_and_few_points(folder: Path) -> None:
    found = drawn_in(folder)["fisher"]
    (curve,) = found["curves"]
    assert (curve["like"], curve["title"]) == ("der", "DER, logits at task ends")
    assert len(curve["steps"]) == len(curve["mean"]) == len(curve["std"]) == 80
    assert (curve["steps"][-1], curve["mean"][-1]) == (240, 80.0)
    assert curve["mean"][0] == pytest.approx(curve["steps"][0] / 3, rel=1e-3)
    assert curve["accuracy"] == [85.92, 1.0]
    assert found["ends"] == [120, 240]
    assert ["der", "der-at-ends", "derpp", "derpp-at-ends"] in found["sides"].values()


def test_a_batch_is_one_picture_of_ink_on_nothing(folder: Path) -> None:
    found = drawn_in(folder)["mnist-360"]
    assert (len(found["batches"]), found["across"]) == (27, 9)
    kind, _, coded = found["batches"][0]["picture"].partition(",")
    assert kind == "data:image/png;base64"
    picture = Image.open(io.BytesIO(base64.b64decode(coded)))
    assert (picture.mode, picture.size) == ("LA", (3 * 4 - 1, 3 * 3 - 1))
    assert picture.getpixel((1, 0)) == (0, 255)
    assert picture.getpixel((4, 1)) == (0, 128), "the second image begins after a gap"
    assert picture.getpixel((3, 0)) == (0, 0)


def test_times_have_the_names_of_methods(folder: Path) -> None:
    (panel,) = drawn_in(folder)["wall-clock"]["panels"]
    assert panel == {"title": "one core", "unit": "µs", "bars": [["er", "ER", 1.0, 2.0]]}


def test_some_figures_are_enough_and_none_is_too_few(folder: Path) -> None:
    (folder / "fisher.json").unlink()
    assert sorted(drawn_in(folder)) == ["mnist-360", "wall-clock"]
    for name in ("mnist-360", "wall-clock"):
        (folder / f"{name}.json").unlink()
    with pytest.raises(InputError, match="recollect figures fisher mnist-360 wall-clock --format"):
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
    with pytest.raises(DataError, match=f"{name}.json holds no figure"):
        drawn_in(folder)


@pytest.mark.usefixtures("bare_machine")
def test_the_command_takes_figures_in(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "run seq-digits er --buffer 20 --seeds 1 --device cpu --workers 1 --json runs.json"
    assert main(words.split()) == 0
    words = f"report --from runs.json --figures {folder} --out"
    assert main([*words.split(), "with.html"]) == 0
    assert main(["report", "--from", "runs.json", "--out", "without.html"]) == 0
    pages = [Path(name).read_text("utf-8") for name in ("with.html", "without.html")]
    assert ["DER, logits at task ends" in page for page in pages] == [True, False]
    assert main(["report", "--from", "runs.json", "--figures", "none"]) == 2
    assert "there is no folder 'none': correct --figures" in capsys.readouterr().err
