"""Killed with SIGKILL at random instants and resumed, a learner ends as if nothing had happened."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.torture import FULL, times

import recollect
from recollect.files import unpack

WORKER = Path(__file__).with_name("fault_worker.py")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")
@pytest.mark.parametrize(
    ("network", "kills", "during"),
    [("mlp", times(100), 5), ("dropout and AdamW", times(40), 1), ("mapping", times(40), 1)],
)
def test_a_learner_that_is_killed_again_and_again_ends_as_one_that_was_not(
    network: str, kills: int, during: int, tmp_path: Path
) -> None:
    source = str(Path(recollect.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, str(WORKER), network, str(tmp_path), str(kills)],
        capture_output=True, text=True, timeout=600,
        env={**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["kills"] == kills
    if FULL:  # a few kills need not fall into a save
        assert told["during a save"] >= during, told
    assert told["failed"] == 0, done.stderr
    assert told["resumed before a reported save"] == 0
    ends = sorted((tmp_path / "killed").iterdir())
    assert len(ends) == told["runs"]
    for name in ("whole", "said", "labels"):
        undisturbed = (tmp_path / "calm" / name).read_bytes()
        assert undisturbed
        assert [end.name for end in ends if (end / name).read_bytes() != undisturbed] == []


def test_what_is_compared_is_all_of_a_learner(tmp_path: Path) -> None:
    """A file holds weights, statistics, memory, optimiser, record, labels, clock and notes."""
    sys.path.insert(0, str(WORKER.parent))
    try:
        import fault_worker as worker  # type: ignore[import-not-found]
    finally:
        sys.path.pop(0)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    worker.learn("dropout and AdamW", tmp_path, nowhere)
    os.close(nowhere)
    facts, tensors = unpack((tmp_path / "whole").read_bytes())
    parts = {".".join(name.split(".")[:2]) for name in tensors}
    assert {
        "engine.weights", "engine.buffers", "engine.memory", "engine.optimiser",
        "record.right", "record.met", "record.ring",
    } <= parts  # fmt: skip
    assert facts["labels"] == [f"class {number}" for number in range(8)]
    assert facts["clock"]["steps"] == worker.STEPS
    assert facts["notes"] == {"next": worker.STEPS}
    assert len(list(tmp_path.glob("*.recollect"))) == 3
