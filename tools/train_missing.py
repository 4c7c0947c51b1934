"""Train the runs that the folder results/ lacks, several commands side by side.

    python -m tools.train_missing agem hal --out missing --together 3 --time-limit 9m
    python -m tools.collect missing/*.json

Takes the commands that `python -m tools.collect` prints; with words, those that contain one of
them. Each command is a process with a result file, a store and a log of its own in the folder, so
it continues where it was stopped, by a time limit, by Ctrl+C or by SIGTERM, when it is run again.
Several processes share a GPU well only under NVIDIA's MPS (`nvidia-cuda-mps-control -d`).
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from types import FrameType
from typing import final

from tools.collect import missing
from tools.command import run_command
from tools.manifest import FOLDER, MANIFEST

from recollect.cli.parser import duration

__all__ = ["main"]

AT_LEAST = 5.0  # seconds; a command that would have less time is not started


@final
@dataclass
class Batch:
    """Processes that train commands side by side, and are stopped together."""

    out: Path
    ends: float
    stopped: bool = False
    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def train(self, command: str) -> str:
        """Run a command in a process, and return how it ended."""
        left = self.ends - time.monotonic()
        name = re.sub(r"[^a-z0-9]+", "-", command.removeprefix("recollect ").lower())
        finished = self.out / f"{name}.json"
        if finished.exists():
            return "done before"
        places = ["--json", str(finished), "--store", str(self.out / f"{name}.sqlite")]
        limit = [] if math.isinf(left) else ["--time-limit", f"{max(left, 0):.0f}s"]
        with (self.out / f"{name}.log").open("ab") as log:
            with self._lock:
                if self.stopped or left < AT_LEAST:
                    return "not started"
                process = subprocess.Popen(
                    [sys.executable, "-m", *shlex.split(command), *places, *limit],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
                self._running.add(process)
            status = process.wait()
        with self._lock:
            self._running.discard(process)
        if finished.exists() and not status:
            return "done"
        last = (self.out / f"{name}.log").read_text("utf-8", "replace").strip().rpartition("\n")[2]
        return f"status {status}: {last}"

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Stop all processes, as a signal handler; each saves its state first."""
        self.stopped = True
        for process in tuple(self._running):
            os.kill(process.pid, signal.SIGTERM)


@contextmanager
def _stopped_by_signals(batch: Batch) -> Iterator[None]:
    before = {n: signal.signal(n, batch.stop) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(
    arguments: Sequence[str] | None = None, folder: Path = FOLDER, manifest: Path = MANIFEST
) -> int:
    """Train the missing commands; return 1 if some of them are not finished."""
    chosen = _parser().parse_args(arguments)
    commands = [
        line.command for line, *_ in missing(folder, manifest)
        if line.makes_runs and (not chosen.words or {*chosen.words} & {*line.command.split()})
    ]  # fmt: skip
    if not commands:
        print("no command with these words has missing runs")
        return 0
    chosen.out.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    limit = math.inf if chosen.time_limit is None else chosen.time_limit
    batch = Batch(chosen.out, begun + limit)
    print(f"{len(commands)} commands, {chosen.together} side by side", flush=True)

    def train(command: str) -> bool:
        how = batch.train(command)
        print(f"{time.monotonic() - begun:6.0f} s  {command}: {how}", flush=True)
        return how.startswith("done")

    with _stopped_by_signals(batch), ThreadPoolExecutor(chosen.together) as pool:
        done = list(pool.map(train, commands))
    print(f"{sum(done)} of {len(commands)} commands are done: python -m tools.collect "
          f"{chosen.out}/*.json")  # fmt: skip
    return 0 if all(done) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.train_missing", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    add = parser.add_argument
    add("words", nargs="*", metavar="WORD", help="only commands with one of these words")
    add("--out", type=Path, default=Path("missing"), metavar="DIR",
        help="folder for results, stores and logs (default: missing)")  # fmt: skip
    add("--together", type=int, default=1, metavar="N",
        help="number of commands that train at the same time (default: 1)")  # fmt: skip
    add("--time-limit", type=duration, metavar="TIME",
        help="save and stop after this time, such as 90s, 20m or 2h")  # fmt: skip
    return parser


if __name__ == "__main__":
    run_command(main)
