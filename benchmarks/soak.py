"""`make soak`: memory and step time of a learner over a long, drifting stream.

Two million examples pass through `Learner.observe` in batches of ten, once with DER++ and once with
plain SGD. Of twenty classes, a few appear at a time, and all drift. Resident memory and step time
at the end are compared with those at the start. As the speed of a shared machine varies, a step of
a plain loop, which has no state that could grow, is timed at intervals, and the learner's times are
also given relative to it.
"""

from __future__ import annotations

import gc
import resource
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import torch

from benchmarks.plain import PlainDERpp, plain_mlp
from recollect import MLP, SGD, DERpp, Learner, Method
from recollect.train.devices import one_thread

EXAMPLES, BATCH, PHASE = 2_000_000, 10, 2_000
CLASSES, FEATURES, AT_ONCE = 20, 32, 3
METHODS: tuple[Method, ...] = (DERpp(alpha=0.2, beta=1.0), SGD())
GROWTH, SLOWER = 1_000_000, 1.1
MEASURED = 20


@final
class Drifting:
    """Endless stream of Gaussian classes whose centres each move around a circle.

    Each phase has examples of three randomly chosen classes, so that a class disappears for a while
    and returns elsewhere. A full circle takes a hundred phases or more.
    """

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self._seed = seed
        self._centre = rng.normal(size=(CLASSES, FEATURES)) / 3
        self._axes = rng.normal(size=(2, CLASSES, FEATURES)) / 4
        self._speed = 2 * np.pi / rng.uniform(100, 400, CLASSES)

    def phase(self, number: int, apart: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return the examples of a phase, x `[PHASE, FEATURES]` and y `[PHASE]`.

        Another value of `apart` gives different examples of the same distribution, for testing.
        """
        chosen = np.random.default_rng((self._seed, number)).choice(CLASSES, AT_ONCE, replace=False)
        rng = np.random.default_rng((self._seed, number, 1 + apart))
        y = chosen[rng.integers(0, AT_ONCE, PHASE)]
        angle = self._speed[y] * (number + np.arange(PHASE) / PHASE)
        centre = self._centre[y]
        centre = centre + np.cos(angle)[:, None] * self._axes[0, y]
        centre = centre + np.sin(angle)[:, None] * self._axes[1, y]
        x = centre + 0.7 * rng.normal(size=(PHASE, FEATURES))
        return x.astype(np.float32), y

    def batches(self, phases: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the stream in batches of BATCH examples."""
        for number in range(phases):
            x, y = self.phase(number)
            for start in range(0, PHASE, BATCH):
                yield x[start : start + BATCH], y[start : start + BATCH]

    def held_out(self, phases: int, most: int = 200) -> tuple[np.ndarray, np.ndarray]:
        """Return test examples of past phases, spread over the whole stream."""
        numbers = np.unique(np.linspace(0, phases - 1, most).astype(int))
        some = [self.phase(number, apart=1) for number in numbers.tolist()]
        return np.concatenate([x[:50] for x, _ in some]), np.concatenate([y[:50] for _, y in some])


@dataclass(frozen=True)
class Outcome:
    """Measurements of a learner over a stream."""

    method: str
    examples: int
    overall: float
    recent: float
    held_out: float
    seconds: np.ndarray
    plain: np.ndarray
    resident: np.ndarray

    @property
    def grown(self) -> int:
        """Growth of resident memory in the last half, in bytes."""
        return int(self.resident[-1] - self.resident[len(self.resident) // 2])

    @property
    def tenths(self) -> tuple[float, float]:
        """Median step time in the first tenth after a warm-up and in the last tenth, in seconds."""
        return _tenths(self.seconds)

    @property
    def slower(self) -> float:
        """Step time at the end relative to the start."""
        first, last = self.tenths
        return last / first

    @property
    def slower_than_plain(self) -> float:
        """The same ratio, with times relative to the plain loop."""
        first, last = _tenths(self.plain)
        return self.slower / (last / first)


def soak(method: Method, examples: int, seed: int = 0) -> Outcome:
    """Let a learner observe `examples` examples, and measure it."""
    stream, phases = Drifting(seed), examples // PHASE
    steps, samples = phases * PHASE // BATCH, 2 * (phases // 2)
    # Every page of these is touched now: what grows later is the learner.
    seconds, plain = np.full(steps, 1.0), np.full(steps // MEASURED, 1.0)
    resident = np.full(samples + 1, 1)
    measure = _Measure()
    torch.manual_seed(seed)
    learner = Learner(MLP(FEATURES, 1), method, memory=500, lr=0.03, seed=seed, replay=10)
    every, taken = steps // samples, 0
    for step, (x, y) in enumerate(stream.batches(phases)):
        if step % every == 0 and taken < samples:
            resident[taken], taken = _resident(), taken + 1
        began = time.perf_counter()
        learner.observe(x, y)
        seconds[step] = time.perf_counter() - began
        if step % MEASURED == 0:
            plain[step // MEASURED] = measure.seconds()
    resident[taken] = _resident()
    metrics = learner.metrics()
    assert metrics.accuracy is not None
    assert metrics.recent is not None
    x, y = stream.held_out(phases)
    right = float((np.array(learner.predict(x)) == y).mean())
    return Outcome(
        method.title, learner.seen, metrics.accuracy, metrics.recent, right, seconds, plain,
        resident,
    )  # fmt: skip


def main() -> int:
    """Measure each method, and print the results; return 1 if a target is missed."""
    parser = ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    examples: int = parser.parse_args().examples
    if examples < 10 * PHASE:
        parser.error(f"the stream needs {10 * PHASE} examples or more")
    print(
        f"{examples:,} examples in batches of {BATCH}, {CLASSES} classes, {AT_ONCE} at a time, "
        f"that drift and come back\nMLP {FEATURES}-100-100, memory 500, one CPU core\n\n"
        f"         prequential accuracy  held-out, of  µs a step, median of     last over first  "
        f"resident memory\n"
        f"method   overall     recently    all it met  first tenth  last tenth  clock  plain loop  "
        f"in last half"
    )
    found = []
    with one_thread():
        for method in METHODS:
            outcome = soak(method, examples)
            first, last = outcome.tenths
            print(
                f"{outcome.method:7s} {outcome.overall:8.2%} {outcome.recent:12.2%} "
                f"{outcome.held_out:13.2%} {1e6 * first:12.0f} {1e6 * last:11.0f} "
                f"{outcome.slower:6.2f} {outcome.slower_than_plain:11.2f} "
                f"{outcome.grown / 1e3:+10.0f} kB",
                flush=True,
            )
            found.append(outcome)
    print()
    kept = [
        promise
        for each in found
        for promise in (
            _kept(f"MB, growth in the last half, {each.method}", each.grown / 1e6, GROWTH / 1e6),
            _kept(
                f"times, last tenth over first, in steps of the plain loop, {each.method}",
                each.slower_than_plain,
                SLOWER,
            ),
        )
    ]
    rehearsed, forgot = found
    better = rehearsed.held_out > forgot.held_out
    print(f"{'ok  ' if better else 'MISS'} DER++ knows more of what it met than SGD")
    return 0 if all(kept) and better else 1


@final
class _Measure:
    """Fixed step of a plain loop, to measure the current speed of the machine."""

    def __init__(self) -> None:
        self._x, self._y = torch.zeros(BATCH, FEATURES), torch.arange(BATCH)
        self._loop = PlainDERpp(plain_mlp(FEATURES, CLASSES), self._x[0], CLASSES, 500, BATCH)
        for _ in range(100):
            self.seconds()

    def seconds(self) -> float:
        """Time one step."""
        began = time.perf_counter()
        self._loop.step(self._x, self._y)
        return time.perf_counter() - began


def _tenths(seconds: np.ndarray) -> tuple[float, float]:
    tenth = len(seconds) // 10
    first = seconds[tenth // 10 : tenth // 10 + tenth]
    return float(np.median(first)), float(np.median(seconds[-tenth:]))


def _resident() -> int:
    """Return the resident memory of this process in bytes."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _kept(what: str, value: float, at_most: float) -> bool:
    kept = value <= at_most
    print(f"{'ok  ' if kept else 'MISS'} {value:6.3f} <= {at_most:g}   {what}")
    return kept


if __name__ == "__main__":
    sys.exit(main())
