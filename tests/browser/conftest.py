"""A report of made-up runs, and a browser that must not complain about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from tests.browser.chromium import PROGRAM, Chromium
from tests.experiments.some_results import with_curves

from recollect.experiments.figures.examples import BatchesData, Shown
from recollect.experiments.figures.fisher import Curve, FisherData
from recollect.experiments.figures.wall_clock import Bar, TimePanel, WallClockData
from recollect.experiments.report import build, drawn_in, render
from recollect.files import write_json, write_text
from recollect.train import Result
from recollect.train.provenance import Provenance

HOSTILE = "</script><img src=x onerror=alert(1)>"


def made(benchmark: str, method: str, buffer: int | None, seed: int, **others: Any) -> Result:
    """A run whose numbers can be told apart."""
    settings = ["domain"] if benchmark == "rot-mnist" else ["class", "task"]
    level = 60.0 + seed + (buffer or 0) / 50
    tasks = 12 if benchmark == "rot-mnist" else 5
    matrix = [[level - 3 * (i - j) if j < i + 2 else None for j in range(tasks)]
              for i in range(tasks)]  # fmt: skip
    facts: dict[str, Any] = {
        "hyperparameters": {"lr": 0.03, "bs": 10},
        "accuracy": dict.fromkeys(settings, level),
        "fwt": dict.fromkeys(settings), "bwt": dict.fromkeys(settings, -9.0),
        "forgetting": dict.fromkeys(settings, 9.0), "epochs": 1, "validation": False,
        "matrix": dict.fromkeys(settings, matrix),
        "untrained": dict.fromkeys(settings, [10.0] * tasks),
        "train_seconds": 0.5, "steps": 100, "memory_bytes": 800 * (buffer or 0),
        "diverged": False, "device": "CPU", "execution": "eager",
    }  # fmt: skip
    command = f"recollect reproduce {benchmark} --methods {method}"
    facts["provenance"] = Provenance("0.1.0", "a machine", command, "2026-01-01")
    return Result(benchmark=benchmark, method=method, buffer=buffer, seed=seed, **facts | others)


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report of two benchmarks, and of somebody's own."""
    rows = [
        made(benchmark, method, buffer, seed)
        for benchmark in ("seq-mnist", "rot-mnist")
        for method, buffers in (("sgd", [None]), ("er", [200, 500]), ("derpp", [200, 500]))
        for buffer in buffers
        for seed in range(3)
    ]
    bare: dict[str, Any] = {"matrix": {}, "untrained": None, "accuracy": {"odd": 50.0}}
    rows += [made("my stream", HOSTILE, 10, 0, **bare, fwt={}, bwt={}, forgetting={})]
    rows += [made("seq-mnist", "er", 200, seed, hyperparameters={"lr": 0.5, "bs": 10})
             for seed in range(2)]  # fmt: skip
    rows += [made("seq-mnist", method, 20, seed) for method in ("er", "er-ring") for seed in (0, 1)]
    rows += [
        made("seq-mnist", "noisy", 500, seed, accuracy={"class": value, "task": value})
        for seed, value in enumerate((68.0, 70.5, 66.0, 90.0))
    ]
    rows += [
        made("two networks", "mine", 500, seed, accuracy={"domain": 70.0 + seed, "task": 99.0},
             matrix={}, network=name.lower(), network_class=name, method_title="My method")
        for seed, name in enumerate(("Small", "Large"))
    ]  # fmt: skip
    folder = tmp_path_factory.mktemp("report")
    _write_figures(folder)
    write_text(folder / "report.html", render(build(rows, drawn_in(folder))))
    return (folder / "report.html").as_uri()


def _write_figures(folder: Path) -> None:
    """What `recollect figures --format json` writes, with few points and small images."""
    curves = tuple(
        Curve(method, buffer, (1, 60, 120), (1.0, 10.0, 100.0 + n), (0.1, 1.0, 9.0), 80.0, 1.0)
        for buffer in (200, 500)
        for n, method in enumerate(("er", "der", "derpp", "der-at-ends", "derpp-at-ends"))
    )
    image = ((0, 255), (128, 0))
    figures: dict[str, Any] = {
        "fisher": FisherData("seq-mnist", 0.03, 5, (60, 120), curves),
        "mnist-360": BatchesData("mnist-360", 0, (Shown((image,) * 9, (0, 1) * 4 + (0,)),) * 27),
        "wall-clock": WallClockData(
            (
                TimePanel(
                    "one core", "µs per run and step", (Bar("er", 100, 100), Bar("hal", 900, 950))
                ),
            ),
            "A note.",
        ),
    }
    for name, data in figures.items():
        write_json(folder / f"{name}.json", asdict(data))


@pytest.fixture(scope="session")
def bare_report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report without figures that were drawn apart."""
    file = tmp_path_factory.mktemp("bare") / "bare.html"
    write_text(file, render(build([made("seq-mnist", "er", 200, 0)])))
    return file.as_uri()


@pytest.fixture(scope="session")
def recorded_report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report in which two of three seeds of a method recorded something."""
    first, second, third = (made("seq-mnist", "derpp", 200, seed) for seed in range(3))
    runs = [with_curves(first, change=0.0), with_curves(second, change=1.0), third]
    runs.append(made("seq-mnist", "er", 200, 0))
    file = tmp_path_factory.mktemp("recorded") / "recorded.html"
    write_text(file, render(build(runs)))
    return file.as_uri()


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    assert PROGRAM is not None
    browser = Chromium(PROGRAM, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.quit()


@pytest.fixture
def browser(
    started: Chromium, report: str, bare_report: str, recorded_report: str
) -> Iterator[Chromium]:
    """A browser on a desk, which must not complain or fetch anything during a test."""
    started.complaints.clear()
    started.fetched.clear()
    started.screen(1280, 900)
    yield started
    assert started.complaints == []
    asked = {address.partition("#")[0] for address in started.fetched}
    pages = {report, bare_report, recorded_report, "about:blank"}
    assert {each for each in asked if not each.startswith("data:image/png")} <= pages
