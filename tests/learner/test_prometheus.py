"""A learner's state as Prometheus reads it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recollect import ER, MLP, InputError, Learner, prometheus

ODD = 'a "quoted" \\ label\nof two lines'
LINE = re.compile(r'recollect_\w+(\{class="(?:[^"\\\n]|\\["\\n])*"\})? [-+.\deE]+')


def taught(folder: Path | None = None) -> Learner:
    learner = Learner(MLP(2, 1), ER(), checkpoints=folder, drift="ADWIN")
    for _ in range(3):
        learner.observe([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], ["a", ODD, 3])
    return learner


def test_every_line_is_help_type_or_a_sample(tmp_path: Path) -> None:
    with taught(tmp_path / "state") as learner:
        assert "checkpoint_age" not in prometheus(learner)
        learner.checkpoint()
        text = prometheus(learner, gauges={"pending": 4})
    assert text.endswith("\n")
    for line in text.splitlines():
        assert line.startswith(("# HELP recollect_", "# TYPE recollect_")) or LINE.fullmatch(line)
    assert "\nrecollect_examples_total 9\n" in text
    assert "\nrecollect_pending 4\n" in text
    assert "\nrecollect_saved_examples 9\n" in text
    age = re.search(r"^recollect_checkpoint_age_seconds (\S+)$", text, re.M)
    assert age is not None
    assert 0 <= float(age[1]) < 60


def test_before_the_first_example_there_are_counts_alone() -> None:
    text = prometheus(Learner(MLP(2, 1), ER()))
    assert "recollect_examples_total 0" in text
    assert "accuracy" not in text
    assert "kappa" not in text


def test_the_series_of_classes_are_bounded_and_distinct() -> None:
    learner = Learner(MLP(2, 1), ER())
    labels = [1, "1", *range(2, 150)]
    learner.observe([[float(n), 1.0] for n in range(150)], labels, on_outlier="learn")
    text = prometheus(learner)
    found = re.findall(r'class="(.*?)"', text)
    assert len(found) == len({*found}) == 100
    assert "'1'" in found
    assert "recollect_classes 150" in text
    assert len(re.findall("class=", prometheus(learner, classes=3))) == 3


def test_gauges_of_any_type_of_number_are_numbers() -> None:
    given: dict[str, Any] = {
        "a": True,
        "b": np.float64(2.5),
        "c": torch.tensor(3),
        "d": np.inf,
        "e": 2**60,
    }
    lines = prometheus(Learner(MLP(2, 1), ER()), gauges=given).splitlines()
    assert [line.removeprefix("recollect_") for line in lines if line[0] != "#"][-5:] == [
        "a 1.0", "b 2.5", "c 3.0", "d +Inf", f"e {2**60}",
    ]  # fmt: skip
    with pytest.raises(InputError, match="'a' must be a number, not 'many'"):
        prometheus(Learner(MLP(2, 1), ER()), gauges={"a": "many"})  # type: ignore[dict-item]


def test_a_label_that_is_not_unicode_has_an_escape() -> None:
    learner = Learner(MLP(2, 1), ER())
    learner.observe([[1.0, 0.0], [0.0, 1.0]], ["\ud800", "b"])
    assert b'{class="\\\\ud800"}' in prometheus(learner).encode()


def test_names_of_gauges_are_checked() -> None:
    learner = Learner(MLP(2, 1), ER())
    with pytest.raises(InputError, match="not a valid name"):
        prometheus(learner, gauges={"a b": 1})
    with pytest.raises(InputError, match="already"):
        prometheus(learner, gauges={"accuracy": 1})


def test_prometheus_own_parser_reads_it() -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    families = {f.name: f for f in parser.text_string_to_metric_families(prometheus(taught()))}
    assert families["recollect_examples"].type == "counter"
    assert families["recollect_examples"].samples[0].value == 9
    shares = families["recollect_class_recent_accuracy"].samples
    assert {sample.labels["class"] for sample in shares} == {"a", ODD, "3"}
