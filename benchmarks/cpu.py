"""`make bench`: training speed of fleets on two CPU cores, against a plain PyTorch loop.

All variants are measured interleaved in one process, as the best of several rounds, and compared by
ratios, because the speed of a shared machine varies.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from typing import Any

import torch
from torch import Tensor

from benchmarks.plain import PlainDERpp, plain_mlp
from recollect import MLP, DERpp, Fleet
from recollect.experiments.plan import plan
from recollect.streams import DataUnavailable, Stream, benchmark
from recollect.train import train_all
from recollect.train.compiled import compiler_exists
from recollect.train.devices import one_thread

BATCH, REPLAY, SEEDS, CORES = 10, 10, 10, 2
ROUNDS, STEPS = 12, 64
LONG_ROUNDS, LONG_STEPS = 3, 2000


def main() -> int:
    """Measure, and print one line for each target; return 1 if one of them is missed."""
    stream = _stream()
    chosen = plan(DERpp, benchmark=benchmark("seq-mnist"), buffer=200, seeds=range(SEEDS))
    jobs = chosen.jobs(stream)
    steps = jobs[0].steps
    print(f"{stream.name}, DER++, {steps} steps a run, {CORES} cores; microseconds a run and step")
    with one_thread():
        best = _per_step(stream)
    plain = best["plain"]
    print(f"plain eager loop, one run        {plain:7.0f}")
    for name, label in NAMES.items():
        if name in best:
            print(f"{label:32s} {best[name]:7.0f}   {plain / best[name]:5.2f} times faster")
    whole, bare, alone = float("inf"), float("inf"), float("inf")
    for _ in range(LONG_ROUNDS):
        with one_thread():
            alone = min(alone, _plain_loop(stream))
        bare = min(bare, _bare_products())
        began = time.perf_counter()
        train_all(jobs, workers=CORES)
        whole = min(whole, time.perf_counter() - began)
    ten = alone * steps * SEEDS / 1e6
    products = bare * steps * SEEDS / CORES / 1e6
    print(f"bare matrix products             {bare:7.0f}")
    print(f"ten plain loops {ten:.1f} s, ten seeds {whole:.1f} s, bare products {products:.1f} s\n")
    one = min(best["one"], best.get("one compiled", best["one"]))
    kept = [
        _kept("one run, times faster per step than the plain loop", plain / one, at_least=2),
        _kept("ten seeds end to end, times faster than ten plain loops", ten / whole, at_least=6),
        _kept("cost of a step, buffer 5120 over 200", best["large"] / best["five"], at_most=1.15),
        _kept("ten seeds end to end over bare products", whole / products, at_most=3),
    ]
    return 0 if all(kept) else 1


NAMES = {
    "one": "recollect, one run",
    "one compiled": "recollect, one run, compiled",
    "five": "recollect, five runs",
    "five compiled": "recollect, five runs, compiled",
    "large": "recollect, five runs, 5120",
}


def _per_step(stream: Stream) -> dict[str, float]:
    """Return the best time per run and step of each variant, measured interleaved."""
    seeds = torch.arange(5)
    x, y = stream.pick(seeds, 0, stream.order(seeds, 0, 0, 0, STEPS * BATCH))
    flat = x[0].flatten(1).float() / 255
    plain = _plain(flat)

    def eager() -> None:
        for start in range(0, STEPS * BATCH, BATCH):
            plain.step(flat[start : start + BATCH], y[0, start : start + BATCH])

    variants: dict[str, tuple[int, Callable[[], object]]] = {"plain": (1, eager)}
    wanted = {"one": (1, 200, False), "five": (5, 200, False), "large": (5, 5120, False)}
    if compiler_exists():
        wanted |= {"one compiled": (1, 200, True), "five compiled": (5, 200, True)}
    for name, (runs, memory, compiled) in wanted.items():
        fleet = _fleet(stream, runs, memory, compiled)
        variants[name] = (runs, _learner(fleet, x[:runs], y[:runs]))
    best = dict.fromkeys(variants, float("inf"))
    for _ in range(ROUNDS):
        for name, (runs, function) in variants.items():
            began = time.perf_counter()
            function()
            spent = (time.perf_counter() - began) / STEPS / runs * 1e6
            best[name] = min(best[name], spent)
    return best


def _plain(flat: Tensor) -> PlainDERpp:
    torch.manual_seed(0)
    return PlainDERpp(plain_mlp(flat.shape[1], 10), flat[0], 10, 200, REPLAY)


def _plain_loop(stream: Stream) -> float:
    """Return the mean step time of the plain loop over a few seconds."""
    seeds = torch.arange(1)
    size = sum(stream.parts(0))
    order = stream.order(seeds, 0, 0, 0, size)[:, torch.arange(LONG_STEPS * BATCH) % size]
    x, y = stream.pick(seeds, 0, order)
    flat = x[0].flatten(1).float() / 255
    loop = _plain(flat)
    began = time.perf_counter()
    for start in range(0, LONG_STEPS * BATCH, BATCH):
        loop.step(flat[start : start + BATCH], y[0, start : start + BATCH])
    return (time.perf_counter() - began) / LONG_STEPS * 1e6


def _learner(fleet: Fleet, x: Tensor, y: Tensor) -> Callable[[], object]:
    return lambda: fleet.learn(x, y, BATCH)


def _fleet(stream: Stream, runs: int, memory: int, compiled: bool) -> Fleet:
    return Fleet(
        [DERpp(0.2, 1.0)] * runs, lambda: MLP(784, 10), seeds=range(runs), lr=[0.03] * runs,
        classes=10, shape=stream.shape, memory=memory, replay=REPLAY, stored=stream.dtype,
        compiled=compiled,
    )  # fmt: skip


def _bare_products() -> float:
    """Time only the matrix products of a step, with five runs on each core in parallel."""
    context: Any = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(CORES), context.SimpleQueue()
    workers = [context.Process(target=_multiply, args=(barrier, results)) for _ in range(CORES)]
    for worker in workers:
        worker.start()
    times = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return float(max(times))


def _multiply(barrier: Barrier, results: Any, runs: int = 5) -> None:
    rows = BATCH + 2 * REPLAY
    sizes = [(784, 100), (100, 100), (100, 10)]
    weights = [torch.rand(runs, a, b) for a, b in sizes]
    inputs = [torch.rand(runs, rows, a) for a, _ in sizes]
    errors = [torch.rand(runs, rows, b) for _, b in sizes]

    def products() -> None:
        for layer, (x, weight, error) in enumerate(zip(inputs, weights, errors, strict=True)):
            torch.bmm(x, weight)
            torch.bmm(x.mT, error)
            if layer:
                torch.bmm(error, weight.mT)

    with one_thread():
        best = float("inf")
        barrier.wait()
        for _ in range(ROUNDS):
            began = time.perf_counter()
            for _ in range(STEPS):
                products()
            best = min(best, (time.perf_counter() - began) / STEPS / runs * 1e6)
    results.put(best)


def _stream() -> Stream:
    try:
        return benchmark("seq-mnist").stream()
    except DataUnavailable as error:
        raise SystemExit(f"the benchmark needs MNIST: {error}") from None


def _kept(what: str, value: float, at_least: float = 0.0, at_most: float = float("inf")) -> bool:
    kept = at_least <= value <= at_most
    bound = f">= {at_least:g}" if at_least else f"<= {at_most:g}"
    print(f"{'ok  ' if kept else 'MISS'} {value:5.2f} {bound:7s} {what}")
    return kept


if __name__ == "__main__":
    sys.exit(main())
