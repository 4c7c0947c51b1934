"""What `recollect stream` cannot do: status 2, one line that helps, nothing written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recollect.cli.main import main
from recollect.errors import RecollectError
from recollect.feeds import Reading, open_feed

Stream = Callable[..., Any]
Sensors = Callable[..., Path]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.csv",), "there is no file or folder"),
        (("sensors.csv", "nowhere.csv"), "there is no file or folder"),
        (("sensors.csv", "sensors.csv"), "the same source is given twice"),
        (("sensors.csv", "--method", "derp"), "unknown method 'derp': did you mean 'derpp'? "
         "(known: agem-r, cls-er, der, derpp, er, "),
        (("sensors.csv", "--method", "ewc"), "EWC cannot learn from a stream, which has no task "
         "boundaries: use one of sgd, er, mer, agem-r, gss, der, derpp"),
        (("sensors.csv", "--method", "joint"), "JOINT cannot learn from a stream"),
        (("sensors.csv", "--method", "pnn"), "PNN cannot learn from a stream"),
        (("sensors.csv", "--method", "er-ring"), "ER (ring) divides its memory among the classes"),
        (("sensors.csv", "--method", "sgd", "--memory", 5), "SGD has no memory"),
        (("sensors.csv", "--method", "er", "--alpha", 1), "ER has no hyper-parameter 'alpha' (it "
         "has: --lr, --batch, --replay, --balanced)"),
        (("sensors.csv", "--method", "sgd", "--alpha", 1), "(it has: --lr, --batch)"),
        (("sensors.csv", "--method", "der", "--beta", 1), "--replay, --alpha, --balanced)"),
        (("sensors.csv", "--alpha", -1), "alpha must be at least 0"),
        (("sensors.csv", "--alpha", "nan"), "alpha must be at least 0"),
        (("sensors.csv", "--lr", 0), "lr must be greater than 0"),
        (("sensors.csv", "--memory", 0), "memory must be a whole number of at least 1, not 0"),
        (("sensors.csv", "--memory", "much"), "memory must be a number of examples or a size"),
        (("sensors.csv", "--batch", 0), "--batch must be at least 1, not 0"),
        (("sensors.csv", "--replay", 0), "--replay must be a whole number of at least 1, not 0"),
        (("sensors.csv", "--window", 0), "window must be a whole number of at least 1, not 0"),
        (("sensors.csv", "--seed", -1), "the seed must be a whole number in 0..2^63 - 1, not -1"),
        (("sensors.csv", "--hidden", 0), "--hidden and --width must be at least 1"),
        (("sensors.csv", "--width", 4), "--width is only for --network resnet18: the size of the "
                                        "mlp is given by --hidden"),
        (("sensors.csv", "--network", "resnet18", "--hidden", 4), "--hidden is only for --network "
                                                                  "mlp"),
        (("sensors.csv", "--size", "3x3"), "--size is only for folders of images: leave it out, as "
                                           "the format of the sources is csv"),
        (("sensors.csv", "--order", "time"), "--order is only for folders of images"),
        (("sensors.csv", "--format", "jsonl", "--no-header", "--delimiter", ";"),
         "--delimiter is only for CSV: leave it out, as the format of the sources is jsonl"),
        (("sensors.csv", "--features", "a", "kind"), "the column 'kind' is the label, so it cannot "
         "be in --features: --label 'NAME' chooses another label"),
        (("sensors.csv", "--ignore", "kind"), "is the label, so it cannot be in --ignore: --label"),
        (("sensors.csv", "--label", "b", "--id", "2"), "is the label, so it cannot be the --id"),
        (("sensors.csv", "--optimiser", "Newton"), "Newton"),
        (("sensors.csv", "--optimiser", "Adam", "--momentum", 0.9), "has no momentum"),
        (("sensors.csv", "--optimiser", "RMSprop", "--momentum", 0.9), "RMSprop has no --momentum"),
        (("sensors.csv", "--momentum", 1), "momentum must be at least 0 and below 1"),
        (("sensors.csv", "--nesterov"), "Nesterov momentum needs a momentum"),
        (("sensors.csv", "--clip", 0), "clip must be greater than 0"),
        (("sensors.csv", "--schedule", "cosine"), "--schedule cosine needs a length, since a "
                                                  "stream has no known end: pass the number of "
                                                  "steps it runs over (--schedule-steps N)"),
        (("sensors.csv", "--schedule", "step"), "(--decay-every N)"),
        (("sensors.csv", "--decay-every", 5), "it belongs to --schedule step"),
        (("sensors.csv", "--schedule-steps", 5), "choose --schedule step or --schedule cosine"),
        (("sensors.csv", "--device", "abacus"), "unknown device 'abacus'"),
        (("sensors.csv", "--network", "resnet18"), "resnet18 needs images"),
        (("sensors.csv", "--network", "resnet18", "--standardise"), "--standardise is only for"),
        (("sensors.csv", "--delimiter", ",,"), "--delimiter must be one character"),
        (("sensors.csv", "--label", "sort"), "there is no column 'sort' (columns: a, b, c, kind)"),
        (("sensors.csv", "--ignore", "z"), "there is no column 'z'"),
        (("sensors.csv", "--format", "jsonl"), "line 1: it is not valid JSON"),
        (("sensors.csv", "--format", "parquet"), "cannot read"),
        (("sensors.csv", "--idle", "3s"), "--idle needs a source that waits for data"),
        (("sensors.csv", "--replayed"), "--replayed is only for standard input"),
        (("sensors.csv", "-"), "standard input (-) cannot be combined with files"),
        (("sensors.csv", "--predictions", "sensors.csv"), "would overwrite the source"),
        (("sensors.csv", "--predictions", "no/where"), "the folder no does not exist"),
        (("sensors.csv", "--checkpoint", "sensors.csv"), "a folder, but sensors.csv is a file"),
        (("sensors.csv", "--classes", "idle", "idle"), "classes lists the same label twice"),
    ],
)  # fmt: skip
def test_one_line_says_what_was_wrong(
    words: tuple[object, ...], message: str, stream: Stream, sensors: Sensors
) -> None:
    sensors(40)
    said = stream(*words)
    assert said.status == 2
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert message in line
    assert line.startswith("recollect: ")
    assert [path.name for path in Path().iterdir()] == ["sensors.csv"], "nothing is written"


@pytest.mark.parametrize(
    "words",
    [(), ("a.csv", "--size", "big"), ("a.csv", "--every", "0"), ("a.csv", "--order", "luck")],
)
def test_usage_is_explained(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["stream", *words])
    assert left.value.code == 2
    assert capsys.readouterr().err.startswith("usage: recollect stream")


def test_a_folder_without_permission(stream: Stream, sensors: Sensors) -> None:
    path = sensors(40)
    Path("file").touch()
    said = stream(path, "--checkpoint", "file/state")
    assert said.status == 2
    assert "'file/state' cannot be used for checkpoints: Not a directory" in said.err


def test_a_class_that_cannot_be_added_is_told_in_options(stream: Stream) -> None:
    rows = "".join(f"{number},{number % 3},kind {number}\n" for number in range(40))
    Path("kinds.csv").write_text(rows)
    said = stream("kinds.csv", "--optimiser", "Adafactor")
    assert said.status == 2
    assert "list all classes (--classes A B C)" in said.err
    assert "classes=" not in said.err


@pytest.mark.parametrize(
    ("name", "text", "words", "option", "argument"),
    [
        ("a", "1,x\n", (), "give --format, one of csv,", "kind"),
        ("a.csv", '{"v": 1}\n', (), "give --format jsonl", "kind="),
        ("a.csv", "v,w,kind\n1,2,x\n1,y,x\n", (), "--ignore 'w' leaves the column", "ignore="),
        ("a.csv", "v,kind\n1,x\n1,2,x\n", (), "(--skip-bad leaves such rows out)", "skip_bad"),
        ("a.jsonl", '{"v": 1}\n', (), "give --label, --features and --ignore as", "give label"),
        ("a.parquet", "", ("--follow",), "leave out --follow", "follow="),
    ],
)  # fmt: skip
def test_errors_of_a_feed_name_options(
    name: str, text: str, words: tuple[str, ...], option: str, argument: str, stream: Stream
) -> None:
    Path(name).write_text(text)
    said = stream(name, *words)
    assert said.status == 2
    assert option in said.err
    assert argument not in said.err
    with pytest.raises(RecollectError) as refused:
        list(open_feed(name, Reading(follow="--follow" in words)).records())
    assert argument in str(refused.value)
    assert "--" not in str(refused.value)


def test_a_file_that_was_replaced_is_told_in_options(stream: Stream, sensors: Sensors) -> None:
    path = sensors(40)
    assert stream(path).status == 0
    path.write_text(path.read_text()[:100])
    said = stream(path)
    assert said.status == 2
    assert "it is not the same file as before (--fresh starts over)" in said.err


def test_a_number_is_not_a_class(stream: Stream, sensors: Sensors) -> None:
    said = stream(sensors(40), "--label", "a", "--ignore", "kind")
    assert said.status == 2
    assert "is not a class: to predict numbers, use --target regression; for classes" in said.err


def test_columns_of_images_are_refused(stream: Stream) -> None:
    Path("photos").mkdir()
    Path("photos/a.png").touch()
    assert "--header is only for CSV" in stream("photos", "--no-header").err
    said = stream("photos", "--ignore", "time")
    assert said.status == 2
    assert "--ignore is only for CSV, JSON lines and Parquet, whose rows have columns" in said.err


@pytest.mark.parametrize(("option", "right"), [("--bs", "--batch"), ("--mbs", "--replay")])
def test_options_that_run_calls_otherwise(
    option: str, right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["stream", "a.csv", option, "5"])
    assert f"unknown option {option}: did you mean {right}?" in capsys.readouterr().err
