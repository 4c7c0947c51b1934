"""A command that is killed again and again, and its result store."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

from tests.torture import times

from recollect.cli.main import main
from recollect.experiments.store import Store

ARGUMENTS = ["reproduce", "seq-digits", "--methods", "er", "derpp", "--buffers", "20",
             "--seeds", "6", "--workers", "2"]  # fmt: skip
KILLS = times(20)


def _child(store: Path, cache: Path) -> None:
    os.environ |= {"RECOLLECT_STORE": str(store), "RECOLLECT_CACHE": str(cache)}
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    os._exit(main(ARGUMENTS))


def _scores(path: Path) -> dict[tuple[str, int], Any]:
    runs = Store(path).runs(all_codes=True)
    assert len({run.identity.key for run in runs}) == len(runs)
    return {(run.method, run.seed): run.matrix for run in runs}


def test_a_reproduction_that_is_killed_again_and_again_ends_the_same(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")

    def started(name: str) -> multiprocessing.process.BaseProcess:
        process = context.Process(target=_child, args=(tmp_path / name, tmp_path / f"{name}-cache"))
        process.start()
        return process

    begun = time.monotonic()
    undisturbed = started("whole.sqlite")
    undisturbed.join(300)
    whole = time.monotonic() - begun
    assert undisturbed.exitcode == 0
    expected = _scores(tmp_path / "whole.sqlite")
    assert len(expected) == 12

    rng = random.Random(0)
    kills = rounds = 0
    while kills < KILLS:
        rounds += 1
        name = f"killed-{rounds}.sqlite"
        while True:
            process = started(name)
            process.join(rng.uniform(0.0, whole * 0.9) if kills < KILLS else 300)
            if process.exitcode is not None:
                break
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            kills += 1
        assert process.exitcode == 0
        assert _scores(tmp_path / name) == expected
