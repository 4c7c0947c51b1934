"""The figures as files: what is drawn, and the command."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from PIL import Image
from tests.experiments.some_results import in_every_figure

from recollect.cli.main import main
from recollect.experiments.figures import (
    FIGURES,
    Material,
    examples,
    fisher,
    recipe,
    save,
)
from recollect.experiments.figures.chart import STYLES, Chart
from recollect.experiments.figures.drawing import Drawing, Plot, compose, pictures
from recollect.experiments.figures.runs import Line, Point
from recollect.experiments.results import Results
from recollect.experiments.store import Store
from recollect.methods import METHODS
from recollect.streams import BENCHMARKS, benchmark
from recollect.train import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

drawn_here = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed here"
)


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return in_every_figure()


def curves() -> fisher.FisherData:
    """Lines that rise from left to right, for every method and two buffers."""
    steps = tuple(range(1, 101))
    return fisher.FisherData(
        "seq-mnist", 0.03, 2, (20, 40, 60, 80, 100),
        tuple(
            fisher.Curve(
                kind.name, buffer, steps, tuple(rise * step for step in steps), (0.5,) * 100,
                80.0, 1.0,
            )
            for buffer in (200, 500)
            for rise, kind in enumerate(fisher.KINDS, 1)
        ),
    )  # fmt: skip


@drawn_here
@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_becomes_a_picture(name: str, results: list[Result], tmp_path: Path) -> None:
    if name == "fisher":
        made: object = curves()
    elif name == "mnist-360":
        made = examples.batches(benchmark("digits-360").stream())
    elif name in BENCHMARKS:
        made = examples.arrivals(benchmark("seq-digits").stream())
    else:
        measured = [replace(run, forgetting={"class": 3.0}) for run in results]
        made = recipe(name).data(Material(results=measured))
    figure = recipe(name).draw(made)
    save(figure, tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.format == "PNG"
        assert picture.width > 500
        shades = picture.convert("L").getcolors()
    assert shades is not None
    assert len(shades) > 10, "there is more than a blank page"
    count, shade = max(shades)
    assert shade == 255, "the background is light"
    assert count > 0.5 * sum(n for n, _ in shades)
    save(figure, tmp_path / "a.pdf")
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    save(figure, tmp_path / "a.svg")
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    words = " ".join("".join(text.itertext()) for text in root.iter(f"{root.tag[:-3]}text"))
    assert figure.get_suptitle() in words, "text is text"


@drawn_here
def test_the_same_data_give_the_same_file(results: list[Result], tmp_path: Path) -> None:
    made = recipe("tiny-memories").data(Material(results=results))
    figure = recipe("tiny-memories").draw(made)
    for name in ("a.png", "a.svg"):
        save(figure, tmp_path / name)
    for name in ("a.svg", "a.png"):
        save(recipe("tiny-memories").draw(made), tmp_path / f"again-{name}")
        assert (tmp_path / f"again-{name}").read_bytes() == (tmp_path / name).read_bytes()


@drawn_here
def test_a_method_has_its_colour_in_every_figure(results: list[Result], tmp_path: Path) -> None:
    for name in ("wall-clock", "tiny-memories"):
        made = recipe(name).data(Material(results=results))
        save(recipe(name).draw(made), tmp_path / "a.svg")
        drawn = (tmp_path / "a.svg").read_text("utf-8")
        for method in ("er", "derpp"):
            assert STYLES[method].colour in drawn


@drawn_here
def test_a_png_has_the_colours_of_the_methods(tmp_path: Path) -> None:
    def lines(chart: Chart) -> None:
        for n, method in enumerate(STYLES):
            points = (Point(0, n, 0.2, 5), Point(1, n + 1, 0.2, 5))
            chart.line(Line(method, points), lambda point: [])

    save(compose(Drawing("All", "", [Plot("", lines)], 1, (5.0, 4.0))), tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as picture:
        assert picture.mode == "P"
        palette = picture.getpalette() or []
    found = [palette[n : n + 3] for n in range(0, len(palette), 3)]
    for method, style in STYLES.items():
        wanted = bytes.fromhex(style.colour[1:])
        off = [max(abs(a - b) for a, b in zip(each, wanted, strict=True)) for each in found]
        assert min(off) <= 4, method


@drawn_here
@pytest.mark.parametrize("name", ["memory", "tiny-memories", "over-time"])
def test_title_and_note_stay_on_the_page_and_off_the_legend(
    name: str, results: list[Result]
) -> None:
    drawing = recipe(name).drawing(recipe(name).data(Material(results=results)))
    long = replace(drawing, title="a title of many words " * 6, note="a note of many words " * 20)
    figure = compose(long)
    page, (title, note) = figure.bbox, (_text(figure, part) for part in ("a title", "a note"))
    for text in (title, note):
        box = text.get_window_extent()
        assert page.x0 <= box.x0
        assert box.x1 <= page.x1
    legend = figure.legends[0].get_window_extent()
    assert not title.get_window_extent().overlaps(legend)
    assert title.get_text().split() == long.title.split()
    assert note.get_text().split() == long.note.split()
    for axes in figure.axes:
        panel = axes.get_tightbbox()
        assert panel is None or not note.get_window_extent().overlaps(panel)


def _text(figure: Figure, start: str) -> Text:
    (found,) = (each for each in figure.texts if each.get_text().startswith(start))
    return found


def test_every_method_has_a_style_of_its_own() -> None:
    assert set(METHODS) <= set(STYLES)
    assert len(set(STYLES.values())) == len(STYLES)


@drawn_here
def test_marks_stand_where_points_are_drawn(results: list[Result]) -> None:
    """Each is at a marker of its method, so that pointing at one finds it."""
    data = recipe("tiny-memories").data(Material(results=results))
    (found,) = pictures(recipe("tiny-memories").drawing(data))
    root = ElementTree.fromstring(found["svg"])
    for method, title in (("er", "ER (reservoir)"), ("derpp", "DER++")):
        drawn = [
            (float(use.attrib["x"]), float(use.attrib["y"]))
            for group in root.iter("{http://www.w3.org/2000/svg}g")
            if group.get("data-key") == method
            for use in group.iter("{http://www.w3.org/2000/svg}use")
        ]
        assert drawn == [(x, y) for key, x, y, *_ in found["marks"] if key == method]
        assert [method, title, STYLES[method].colour] in found["legend"]
    assert ["derpp", 10, "buffer 10"] in [[m[0], m[3], m[4]] for m in found["marks"]]
    assert "style=" not in found["svg"], "the page's policy forbids it"


# The command


@drawn_here
def test_the_command_draws_from_files(
    results: list[Result],
    bare_machine: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Results(results[: len(results) // 2]).save(tmp_path / "a.json")
    Results(results[len(results) // 2 :]).save(tmp_path / "b.json")
    files = [str(tmp_path / name) for name in ("a.json", "b.json")]
    words = ["figures", "memory", "tiny-memories", "--from", *files, "--out", "new/here"]
    assert main([*words, "--format", "png", "svg", "json"]) == 0
    said = capsys.readouterr().out.split()
    expected = {f"new/here/{name}.{form}" for name in ("memory", "tiny-memories")
                for form in ("png", "svg", "json")}  # fmt: skip
    assert set(said) == expected
    assert {str(path) for path in Path("new/here").iterdir()} == expected
    data = json.loads(Path("new/here/memory.json").read_text("utf-8"))
    lines = {line["method"]: line["points"] for line in data["panels"][0]["lines"]}
    assert [point["x"] for point in lines["derpp"]] == [160_000, 400_000]
    assert lines["derpp"][0]["mean"] == 60.0


def test_the_command_takes_the_store_and_leaves_out_what_is_not_there(
    results: list[Result],
    bare_machine: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without names it makes all that it can; on a bare machine digits stand in for MNIST."""
    variants = ("er-ring", "er-kmeans", "er-mof", "er-hybrid")
    kept = [replace(r, forgetting={"class": 3.0}) for r in results if r.method not in variants]
    Store().add(kept)
    monkeypatch.setattr(fisher, "data", partial(fisher.data, buffers=(20,)))
    assert main(["figures", "--format", "json", "--seeds", "1"]) == 0
    said = capsys.readouterr()
    missing = ("cifar", "tiny-imagenet", "fashion")
    without = ("tiny-memories", *(name for name in FIGURES if any(m in name for m in missing)))
    wanted = {f"figures/{name}.json" for name in FIGURES if name not in without}
    assert set(said.out.split()) == wanted
    assert "tiny-memories is skipped: no results of ER's memory variants" in said.err
    assert "seq-cifar10 is skipped: the data of seq-cifar10 are not available" in said.err
    batches = json.loads(Path("figures/mnist-360.json").read_text("utf-8"))
    assert batches["benchmark"] == "digits-360"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["memry"], "unknown figure 'memry': did you mean 'memory'?"),
        (["memory"], "no results of methods with a memory: run recollect reproduce"),
        (["wall-clock"], "no results with training times"),
        (["tiny-memories"], "no results of ER's memory variants"),
        (["over-time"], "no results with a sequence of tasks"),
        (["curves"], "no results with curves: run recollect run seq-mnist derpp"),
        (["memory", "--from", "none.json"], "none.json cannot be read: No such file"),
        (["memory", "--from", "file"], "file, run 1: not a run as --json writes it"),
        (["memory", "--store", "none.sqlite"], "there is no result store 'none.sqlite'"),
        (["memory", "--out", "file"], "cannot write into 'file': it is a file; give a folder"),
        (["wall-clock", "--bench", "none.txt"], "none.txt cannot be read"),
        (["wall-clock", "--bench", "file"], "file has no table"),
        (["fisher", "--seeds", "many"], "cannot parse the seeds 'many'"),
        (["mnist-360", "--data-dir", "none"], "there is no folder 'none': correct --data-dir"),
    ],
)
def test_the_command_refuses_in_one_line(
    words: list[str], message: str, bare_machine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("[1]", "utf-8")
    assert main(["figures", *words, "--format", "json"]) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith("recollect: ")
    assert message in line
    assert said.out == ""
    assert [path.name for path in Path().iterdir()] == ["file"], "nothing is written"


def test_without_matplotlib_only_data_can_be_made(
    bare_machine: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["figures", "mnist-360"]) == 2
    assert 'not installed: run pip install "recollect[figures]"' in capsys.readouterr().err
    assert not Path("figures").exists()
    assert main(["figures", "mnist-360", "--format", "json"]) == 0
    assert Path("figures/mnist-360.json").exists()
