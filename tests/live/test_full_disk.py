"""A live stream whose disk is full: an error that names the file, and it continues exactly."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from recollect import MLP, DataError, DERpp, Learner, LiveStream
from recollect.feeds import open_feed


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """No file can grow beyond so many bytes, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def run(folder: Path, rows: Path) -> Learner | None:
    def made(x: np.ndarray) -> Learner:
        torch.manual_seed(0)
        return Learner(MLP(x.size, 1, [4]), DERpp(), memory=5, lr=0.1)

    live = LiveStream(
        made, open_feed(rows), folder, predictions=folder.with_suffix(".jsonl"), every_steps=5
    )
    return live.run()


def test_a_full_disk_is_an_error_and_the_stream_continues_exactly(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(0), tmp_path / "rows.csv"
    x = rng.normal(size=(600, 2)).tolist()
    rows.write_text("".join(f"{a:.4f},{b:.4f},{'ab'[a > b]}\n" for a, b in x))
    assert run(tmp_path / "whole", rows) is not None
    with largest_file(20_000), pytest.raises(DataError, match=r"cannot write .*parts\.jsonl: "):
        run(tmp_path / "parts", rows)
    assert run(tmp_path / "parts", rows) is not None
    assert (tmp_path / "parts.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_note_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("1,2,a\n2,1,b\n" * 10)
    with largest_file(10), pytest.raises(DataError, match="File too large"):
        run(tmp_path / "state", rows)
