"""`make bench-serving`: latency of concurrent learning, prediction and saving in a service.

1. The latency of `predict` in one thread, idle and while another thread calls `observe`
   continuously: a small CNN, batches of 32.
2. The longest `observe` and `predict` while a checkpoint of 200 MB is written, by the clock. On
   Linux, the time without waits for a free core is printed too. It tells waits for cores, which the
   writing thread takes as well, from waits for locks.
3. The time of `observe` with PyTorch's default number of threads, relative to one thread, alone and
   next to a process that keeps a core busy. The variants are interleaved.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from recollect import MLP, DERpp, Learner

PREDICTIONS, ROUNDS, STEPS = 600, 15, 20
MEGABYTES, SECONDS = 200, 2.0
BUSY = "while True: pass"


def main() -> int:
    """Measure and print; return 1 if a target is missed."""
    kept = [*_predictions(), *_checkpoint(), *_threads()]
    return 0 if all(kept) else 1


def _predictions() -> Iterator[bool]:
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 64, 10),
    )  # fmt: skip
    learner = Learner(network, DERpp(), memory=500, replay=32)
    x, y = torch.rand(32, 3, 32, 32), torch.randint(0, 10, (32,))
    for _ in range(3):
        learner.observe(x, y)
    idle = _waits(lambda: learner.predict(x[0]), PREDICTIONS)
    with _again_and_again(lambda: learner.observe(x, y)) as steps:
        busy = _waits(lambda: learner.predict(x[0]), PREDICTIONS)
    print(
        f"predict, a small CNN     p50 {_ms(idle, 50):6.2f} ms   p99 {_ms(idle, 99):6.2f} ms\n"
        f"while it learns          p50 {_ms(busy, 50):6.2f} ms   p99 {_ms(busy, 99):6.2f} ms   "
        f"({len(steps)} steps, of {_ms(steps, 50):.0f} ms)"
    )
    yield _kept(_ms(busy, 99), 2 * _ms(idle, 99) + 5, "ms, p99 of predict while it learns")


def _checkpoint() -> Iterator[bool]:
    features = 1000
    rows = MEGABYTES * 10**6 // (4 * features)
    with tempfile.TemporaryDirectory() as folder:
        learner = Learner(MLP(features, 10), DERpp(), memory=rows, checkpoints=folder)
        x, y = torch.rand(10, features), torch.arange(10)
        for _ in range(20):
            learner.observe(x, y)
        until = time.perf_counter() + SECONDS
        before = _together(learner, x, y, lambda: time.perf_counter() < until)
        began = time.perf_counter()
        learner.checkpoint(wait=False)
        called = time.perf_counter() - began
        during = _together(learner, x, y, lambda: learner.saved is None)
        took = time.perf_counter() - began
        learner.close()
    print(f"a checkpoint of {MEGABYTES} MB   {took:.2f} s, of which the call {1e3 * called:.1f} ms")
    yield _kept(1e3 * called, 20, "ms, the call")
    for name, usual, waits in zip(("observe", "predict"), before, during, strict=True):
        longest = [max(took) for took, _ in (waits, usual)]
        counted = [max(np.subtract(took, queued)) for took, queued in (waits, usual)]
        print(
            f"{name}, longest   {1e3 * longest[0]:.1f} ms; without a checkpoint "
            f"{1e3 * longest[1]:.1f} ms; without waits for a core {1e3 * counted[0]:.1f} and "
            f"{1e3 * counted[1]:.1f} ms"
        )
        more = 1e3 * (longest[0] - longest[1])
        yield _kept(more, 20, f"ms, longest {name}, over that without a checkpoint")


Calls = tuple[list[float], list[float]]  # how long each took, and how long it waited for a core


def _together(
    learner: Learner, x: Tensor, y: Tensor, goes_on: Callable[[], bool]
) -> tuple[Calls, Calls]:
    """Return the calls of `observe`, and of `predict` in another thread."""
    observed: Calls = [], []
    predicted: Calls = [], []
    with _again_and_again(lambda: _timed(lambda: learner.predict(x[0]), predicted)):
        while goes_on():
            _timed(lambda: learner.observe(x, y), observed)
    return observed, predicted


def _timed(call: Callable[[], object], calls: Calls) -> None:
    queued, began = _queued(), time.perf_counter()
    call()
    calls[0].append(time.perf_counter() - began)
    calls[1].append(_queued() - queued)


def _queued() -> float:
    """The seconds that this thread was ready to run and had no core; 0 where nothing tells."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) * 1e-9
    except (OSError, IndexError, ValueError):
        return 0.0


def _threads() -> Iterator[bool]:
    default = torch.get_num_threads()
    torch.manual_seed(0)
    learner = Learner(MLP(784, 10), DERpp(), memory=500, replay=10)
    x, y = torch.rand(10, 784), torch.arange(10)
    for beside in (False, True):
        with _busy_process() if beside else _nothing():
            spent: dict[int, list[float]] = {1: [], default: []}
            for _ in range(ROUNDS):
                for threads, each in spent.items():
                    torch.set_num_threads(threads)
                    each.append(sum(_waits(lambda: learner.observe(x, y), STEPS)))
            torch.set_num_threads(default)
        one, many = np.array(spent[1]), np.array(spent[default])
        where = "beside a busy process" if beside else "alone"
        print(
            f"observe, MLP, {where}: {1e3 * np.median(one) / STEPS:.2f} ms with one thread, "
            f"{1e3 * np.median(many) / STEPS:.2f} ms with {default}"
        )
        ratio = float(np.median(many / one))
        yield _kept(ratio, 1.1, f"times, default threads over one, {where}")


def _waits(call: Callable[[], object], count: int) -> list[float]:
    found = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return found


@contextmanager
def _again_and_again(call: Callable[[], object]) -> Iterator[list[float]]:
    over, found = threading.Event(), list[float]()

    def loop() -> None:
        while not over.is_set():
            found.extend(_waits(call, 1))

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


@contextmanager
def _busy_process() -> Iterator[None]:
    busy = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _ms(waits: list[float], share: float) -> float:
    return 1e3 * float(np.percentile(waits, share))


def _kept(value: float, most: float, what: str) -> bool:
    kept = value <= most
    print(f"{'ok  ' if kept else 'MISS'} {value:7.2f} <= {most:<7.2f} {what}\n")
    return kept


if __name__ == "__main__":
    sys.exit(main())
