"""The tool that compares candidates for the default of a learner."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tools.default_streams import STREAMS
from tools.defaults import CANDIDATES, learned, main, read, table
from torch import nn

from recollect import MLP, Learner
from recollect.methods.usual import FORMERLY, USUAL
from recollect.nets import Standardise


def test_the_default_and_the_one_before_are_among_the_candidates() -> None:
    assert {USUAL, *FORMERLY} <= {*CANDIDATES.values()}


def test_a_fleet_predicts_about_what_learners_do() -> None:
    """Not the same: a learner's head grows, so that its outputs start elsewhere."""
    seeds = range(3)
    rows = learned(STREAMS["digits"], "ER-ACE", 32, [(0.1, seed) for seed in seeds])
    for each in rows:
        examples = STREAMS["digits"](each["seed"])
        torch.manual_seed(each["seed"])
        network = nn.Sequential(Standardise(64), MLP(64, 1))
        learner = Learner(network, CANDIDATES["ER-ACE"], lr=0.1, seed=each["seed"])
        for start in range(0, len(examples.y), 32):
            part = slice(start, start + 32)
            learner.observe(examples.x[part], examples.y[part].tolist())
        accuracy = learner.metrics().accuracy
        assert accuracy is not None
        assert abs(100 * accuracy - each["prequential"]) < 8
        right = learner.predict(examples.test_x) == examples.test_y
        assert abs(100 * right.mean() - each["final"]) < 5


def test_what_is_in_the_file_is_not_computed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    some = {name: CANDIDATES[name] for name in ("ER", "ER-ACE")}
    monkeypatch.setattr("tools.defaults.CANDIDATES", some)
    file = tmp_path / "defaults.jsonl"
    words = ["--streams", "sensors", "--batches", "32", "--rates", "0.1", "--results", str(file)]
    assert main([*words, "--seeds", "1"]) == 0
    first = file.read_text()
    assert main([*words, "--seeds", "2"]) == 0
    assert file.read_text().startswith(first)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(row["candidate"], row["seed"]) for row in rows] == [
        ("ER", 0), ("ER-ACE", 0), ("ER", 1), ("ER-ACE", 1)
    ]  # fmt: skip
    assert "| on the way / at the end | sensors | mean |" in capsys.readouterr().out


def test_a_cell_has_the_means_over_seeds() -> None:
    def row(seed: int, **values: Any) -> dict[str, Any]:
        return {"stream": "s", "candidate": "ER", "lr": 0.1, "batch": 1, "seed": seed, **values}

    rows = [row(0, prequential=50.0, final=70.0), row(1, prequential=60.0, final=70.0)]
    assert "| ER | 55.0 ±7.1 / 70.0 ±0.0 | 55.0 / 70.0 |" in table(rows, 0.1, 1)
    assert "ER" not in table(rows, 0.1, 10)


def test_no_file_is_no_rows(tmp_path: Path) -> None:
    assert read(tmp_path / "none.jsonl") == {}


def test_a_tight_clip_changes_what_is_learned_and_a_wide_one_does_not() -> None:
    runs = [(0.1, 0)]
    free, wide, tight = (
        learned(STREAMS["digits"], "DER++ 0.1, 1", 32, runs, clip) for clip in (None, 1e6, 1e-3)
    )
    assert free == wide != tight
