"""`recollect stream`: what it learns from, and what it tells."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from torch import nn

from recollect import MLP, DERpp
from recollect.cli.main import main
from recollect.learner import Learner
from recollect.nets import Standardise

Stream = Callable[..., Any]
Sensors = Callable[..., Path]
Told = Callable[[str | Path], list[dict[str, Any]]]


def accuracies(text: str) -> dict[str, float]:
    """The rows of the table."""
    return {name: float(share) for name, share in re.findall(r"^(.+?)\s+([\d.]+) %$", text, re.M)}


def test_it_learns_sensors_of_any_scale_and_tells_how_well(
    stream: Stream, sensors: Sensors
) -> None:
    said = stream(sensors(600), "--label", "kind", "--lr", 0.1)
    assert said.status == 0
    assert "600 examples · DER++ · predicted before learning" in said.out
    shares = accuracies(said.out)
    assert {*shares} == {"all", "the last 600", "idle", "läuft", "hot"}
    assert shares["all"] > 80
    assert said.err == "recollect: learning 'kind' from 3 numbers (a, b, c)\n"


def test_without_standardising_the_same_sensors_are_not_learned(
    stream: Stream, sensors: Sensors
) -> None:
    said = stream(sensors(600), "--no-standardise", "--lr", 0.1)
    assert said.status == 0
    assert accuracies(said.out)["all"] < 50


def test_steps_that_lead_nowhere_end_it_and_what_was_learned_before_is_kept(
    stream: Stream, sensors: Sensors, told: Told
) -> None:
    words = ("--lr", 1e9, "--clip", "inf")
    said = stream(sensors(600), *words, "--predictions", "p.jsonl")
    assert said.status == 2
    assert "use a lower lr" in said.err
    assert 0 < (kept := len(told("p.jsonl"))) < 600
    assert f"continuing after {kept} examples" in stream("sensors.csv", *words).err


def test_it_is_the_loop_that_anyone_would_write(
    stream: Stream, sensors: Sensors, drifting: Any, told: Told
) -> None:
    words = ("--batch", 7, "--memory", 40, "--replay", 8, "--lr", 0.05, "--alpha", 0.2,
             "--beta", 0.7, "--seed", 3, "--predictions", "p.jsonl")  # fmt: skip
    assert stream(sensors(150), *words).status == 0
    torch.manual_seed(3)
    net = nn.Sequential(Standardise(3), MLP(3, 1, [16]))
    method = DERpp(alpha=0.2, beta=0.7)
    learner = Learner(net, method, memory=40, replay=8, lr=0.05, seed=3)
    x, y = drifting(150)
    expected: list[Any] = []
    for start in range(0, 150, 7):
        batch = slice(start, start + 7)
        expected += learner.predict(x[batch]) if start else [None] * 7
        learner.observe(x[batch], y[batch])
    lines = told("p.jsonl")
    assert [line["predicted"] for line in lines] == expected
    assert [line["label"] for line in lines] == y
    assert [line["n"] for line in lines] == [*range(1, 151)]
    right = np.mean([line["label"] == line["predicted"] for line in lines])
    assert learner.metrics().accuracy == pytest.approx(float(right))


def test_all_formats_of_the_same_numbers_are_learned_alike(
    stream: Stream, sensors: Sensors, drifting: Any, told: Told
) -> None:
    x, y = drifting(90)
    columns = {name: x[:, number] for number, name in enumerate("abc")}
    pq.write_table(pa.table({**columns, "kind": y}), "sensors.parquet", row_group_size=40)
    files = [sensors(90), sensors(90, "sensors.jsonl"), Path("sensors.parquet")]
    for path in files:
        words = ("--label", "kind", "--predictions", f"{path}.out")
        assert stream(path, *words).status == 0
    outputs = [told(f"{path}.out") for path in files]
    assert [line["line"] for line in outputs[0]] == [*range(2, 92)], "after the header"
    assert [line["line"] for line in outputs[1]] == [*range(1, 91)]
    for lines in outputs:
        for line in lines:
            del line["line"]
    assert outputs[0] == outputs[1] == outputs[2]


@pytest.mark.parametrize("network", [("mlp",), ("resnet18", "--width", 8)])
def test_images_arrive_class_by_class(
    network: tuple[object, ...], stream: Stream, told: Told
) -> None:
    rng = np.random.default_rng(0)
    for number in range(24):
        dark = number < 12
        path = Path("images") / ("night" if dark else "day") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        low = 0 if dark else 200
        Image.fromarray(rng.integers(low, low + 50, (8, 8, 3), dtype=np.uint8)).save(path)
        os.utime(path, (number, number))
    said = stream("images", "--network", *network, "--batch", 4, "--predictions", "p.jsonl")
    assert said.status == 0, said.err
    lines = told("p.jsonl")
    assert [line["label"] for line in lines] == ["night"] * 12 + ["day"] * 12
    assert [line["predicted"] for line in lines[4:12]] == ["night"] * 8


def test_predictions_on_the_output_and_the_table_beside_it(
    stream: Stream, sensors: Sensors, told: Told
) -> None:
    said = stream(sensors(30), "--predictions", "-")
    assert said.status == 0
    Path("out").write_text(said.out)
    assert [line["n"] for line in told("out")] == [*range(1, 31)]
    assert accuracies(said.err)["all"] >= 0


def test_probabilities_are_those_of_the_predicted_class(
    stream: Stream, sensors: Sensors, told: Told
) -> None:
    stream(sensors(60), "--predictions", "p.jsonl")
    lines = told("p.jsonl")
    assert all(line["predicted"] is None is line["probability"] for line in lines[:10])
    assert all(1 / 3 <= line["probability"] <= 1 for line in lines[10:])
    assert all({*line} == {"n", "line", "label", "predicted", "probability"} for line in lines)


def test_what_has_no_label_is_predicted_and_not_learned(
    stream: Stream, sensors: Sensors, told: Told
) -> None:
    text = sensors(60).read_text()
    lines = text.splitlines(keepends=True)
    extra = [re.sub(r",[^,]*\n", ",\n", line) for line in lines[31:36]]
    Path("sensors.csv").write_text("".join(lines))
    assert stream("sensors.csv", "--predictions", "p.jsonl").status == 0
    Path("more.csv").write_text("".join([*lines[:31], *extra, *lines[31:]]))
    said = stream("more.csv", "--predictions", "q.jsonl", "--batch", 5, "--fresh")
    assert "60 examples" in said.out
    found = told("q.jsonl")
    assert [line["n"] for line in found] == [*range(1, 66)]
    assert [line["label"] for line in found[30:35]] == [None] * 5
    assert all(line["predicted"] for line in found[30:35])
    assert stream("sensors.csv", "--predictions", "r.jsonl", "--batch", 5, "--fresh").status == 0
    without = [{**line, "n": 0, "line": 0} for line in found if line["label"]]
    assert without == [{**line, "n": 0, "line": 0} for line in told("r.jsonl")]


def test_only_rows_without_labels_are_no_error(stream: Stream, told: Told) -> None:
    Path("new.csv").write_text("a,kind\n1,\n2,\n")
    said = stream("new.csv", "--predictions", "p.jsonl")
    assert said.status == 0
    assert [line["predicted"] for line in told("p.jsonl")] == [None, None]
    with Path("new.csv").open("a") as file:
        file.write("3,x\n")
    assert "continuing after 2 examples" in stream("new.csv", "--predictions", "p.jsonl").err
    assert [line["label"] for line in told("p.jsonl")] == [None, None, "x"]


def test_bad_rows_end_it_or_are_left_out(stream: Stream, sensors: Sensors, told: Told) -> None:
    path = sensors(60)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:26], "1,oops,3,hot\n", *lines[26:]]))
    said = stream(path, "--predictions", "p.jsonl")
    assert said.status == 2
    assert "sensors.csv, line 27: 'oops' in column 'b' is not a number" in said.err
    assert len(told("p.jsonl")) == 20, "whole batches before it"
    said = stream(path, "--predictions", "p.jsonl", "--skip-bad")
    assert said.status == 0
    assert "continuing after 20 examples" in said.err
    assert "rows left out because they could not be read: 1" in said.err
    rows = [*range(1, 26), *range(27, 62)]
    assert [line["n"] for line in told("p.jsonl")] == rows, "the number of the row, bad ones too"
    assert [line["line"] for line in told("p.jsonl")] == [row + 1 for row in rows]


def test_classes_can_be_fixed(stream: Stream, sensors: Sensors, told: Told) -> None:
    path = sensors(60)
    said = stream(path, "--classes", "idle", "läuft")
    assert said.status == 2
    assert "the label 'hot' is not one of the given classes" in said.err
    assert stream(path, "--fresh", "--classes", "hot", "läuft", "idle", "later").status == 0
    Path("numbers.jsonl").write_text('{"v": 1, "label": 1}\n{"v": 2, "label": 2}\n')
    words = ("--classes", 1, 2, "--batch", 1, "--predictions", "p.jsonl")
    assert stream("numbers.jsonl", *words).status == 0
    assert [line["label"] for line in told("p.jsonl")] == [1, 2]


@pytest.mark.parametrize("method", ["sgd", "er", "agem-r", "gss", "der", "mer"])
def test_other_methods(method: str, stream: Stream, sensors: Sensors) -> None:
    said = stream(sensors(40), "--method", method, "--optimiser", "SGD")
    assert said.status == 0, said.err


def test_another_optimiser(stream: Stream, sensors: Sensors) -> None:
    said = stream(sensors(300), "--optimiser", "Adam", "--lr", 0.01)
    assert said.status == 0, said.err
    assert accuracies(said.out)["all"] > 60


def test_the_optimiser_has_the_options_of_run(stream: Stream, sensors: Sensors) -> None:
    words = ("--lr", 0.01, "--momentum", 0.9, "--nesterov", "--weight-decay", 1e-4, "--clip", 5,
             "--schedule", "cosine", "--schedule-steps", 60, "--warmup", 3)  # fmt: skip
    path = sensors(300)
    said = stream(path, *words)
    assert said.status == 0, said.err
    assert accuracies(said.out)["all"] > 60
    assert stream(path, *words).status == 0, "the same command continues"
    said = stream(path, *words[2:])
    assert said.status == 2
    assert "--lr 0.01, not with --lr 0.03" in said.err
    said = stream(path, *words[:4], *words[5:])
    assert "was saved with --nesterov, not with no --nesterov" in said.err


def test_standard_input(
    stream: Stream, sensors: Sensors, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    stream(sensors(60), "--predictions", "p.jsonl")
    with Path("sensors.csv").open() as source:
        monkeypatch.setattr(sys, "stdin", source)
        assert stream("-", "--predictions", "q.jsonl").status == 0
    assert told("p.jsonl") == told("q.jsonl")


@pytest.mark.parametrize("text", ["", "a,b,kind\n"])
def test_nothing_arrives(text: str, stream: Stream) -> None:
    Path("empty.csv").write_text(text)
    said = stream("empty.csv", "--predictions", "p.jsonl")
    assert said.status == 1
    assert said.err == "recollect: there was no example to learn from in empty.csv\n"
    assert [path.name for path in Path().iterdir()] == ["empty.csv"]


def test_nothing_new_is_no_failure(stream: Stream, sensors: Sensors) -> None:
    path = sensors(60)
    assert stream(path).status == 0
    again = stream(path)
    assert again.status == 0
    assert "60 examples" in again.out


def test_many_classes_fit_on_the_screen(stream: Stream) -> None:
    rows = [f"{number},[bold]c{number}\n" for number in range(60)]
    Path("many.csv").write_text("".join(rows))
    said = stream("many.csv", "--batch", 60)
    assert "... and 20 more" in said.out
    assert "[bold]c39" in said.out, "a label is no markup"


def test_a_line_now_and_then_where_there_is_no_terminal(
    stream: Stream, sensors: Sensors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.cli.stream_screen.NOW_AND_THEN", 0.0)
    said = stream(sensors(20))
    first = said.err.splitlines()[1]
    assert re.fullmatch(
        r"recollect: 10 examples · [\d,]+/s · accuracy [\d.]+ %, last 10: [\d.]+ %, "
        r"balanced [\d.]+ %, kappa -?[\d.]+ · \d class(es)?",
        first,
    )


def test_a_live_line_in_a_terminal(
    sensors: Sensors, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("recollect.cli.stream_screen.REFRESH", 0.0)
    assert main(["stream", str(sensors(20)), "--hidden", "8"]) == 0
    said = capsys.readouterr().err
    assert "20 examples" in said
    assert "\x1b[" in said, "the line is drawn over itself"


def test_help_names_only_methods_that_are_fit(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["stream", "--help"])
    assert left.value.code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "one of: sgd, er, mer, agem-r, gss, der, derpp" in said
