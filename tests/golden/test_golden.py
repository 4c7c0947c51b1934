"""Every method does what it did when its numbers were recorded: see `record.py`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.golden import cases, driver
from tests.golden.record import FOLDER, KINDS, alone, learned, options_of, settings, summary

WITHIN = 1e-10
SHOWN = 8
CASES = [(name, options) for name in driver.METHODS for options in options_of(name)]


@pytest.mark.parametrize(("name", "options"), CASES, ids=[" ".join(case) for case in CASES])
def test_runs_are_as_recorded(name: str, options: str) -> None:
    """Each seed alone, step by step, and all in one fleet, as training takes its steps."""
    golden, given = _golden(name)[options], options_of(name)[options]
    for kind in KINDS:
        _same(golden[kind], alone(name, given, kind), kind)
        if golden[kind] == "refused":
            continue
        fleet = settings(name, given, kind)(cases.SEEDS, stepwise=False)
        stepwise = ("losses", "held")
        whole = [{n: v for n, v in run.items() if n not in stepwise} for run in golden[kind]]
        _same(whole, [summary(run) for run in fleet], f"{kind} (fleet)")


@pytest.mark.parametrize("name", driver.learner_methods())
def test_learners_are_as_recorded(name: str) -> None:
    golden = _golden(name)["learner"]
    for kind in KINDS:
        _same(golden[kind], learned(name, kind), kind)


def test_every_file_belongs_to_a_method() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(driver.METHODS)
    for name in driver.METHODS:
        learner = ["learner"] if name in driver.learner_methods() else []
        assert list(_golden(name)) == [*options_of(name), *learner]


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ([1.0, 0.5], [1.0 + 9e-11, 0.5], False),
        ([1.0, 0.5], [1.0, 0.5 + 2e-10], True),
        ([1.0, 1e-9], [1.0, 1.05e-9], False),
        ([0.0, 0.0], [0.0, 1e-300], True),
        ([1.0], [1.0, 1.0], True),
        ({"a": "1f"}, {"a": "2f"}, True),
        ({"a": "1f"}, {}, True),
        ({}, {"a": "1f"}, True),
        ([None, 1.0], [None, 1.0], False),
        ([None, 1.0], [0.0, 1.0], True),
        (3, 4, True),
    ],
)
def test_a_comparison_finds_what_differs(one: Any, other: Any, differ: bool) -> None:
    assert bool(_differences(one, other, "")) is differ


def _golden(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return found


def _same(golden: Any, found: Any, where: str) -> None:
    differences = _differences(golden, found, where)
    assert not differences, f"{len(differences)} differ:\n" + "\n".join(differences[:SHOWN])


def _differences(golden: Any, found: Any, where: str, scale: float = 0.0) -> list[str]:
    """What differs: floats by more than 1e-10 of the largest in their list, all else at all."""
    if isinstance(golden, dict) and isinstance(found, dict):
        names = [*golden, *(name for name in found if name not in golden)]
        pairs = [(golden.get(n, "missing"), found.get(n, "missing"), n) for n in names]
        return [d for one, other, n in pairs for d in _differences(one, other, f"{where} > {n}")]
    if isinstance(golden, list) and isinstance(found, list) and len(golden) == len(found):
        scale = max((abs(each) for each in golden if isinstance(each, float)), default=0.0)
        pairs = [(*pair, place) for place, pair in enumerate(zip(golden, found, strict=True))]
        return [
            d for one, other, n in pairs for d in _differences(one, other, f"{where} > {n}", scale)
        ]
    if isinstance(golden, float) and isinstance(found, float):
        same = abs(golden - found) <= WITHIN * (scale or abs(golden))
    else:
        same = type(golden) is type(found) and golden == found
    return [] if same else [f"{where}: {golden} was recorded, {found} was found"]
