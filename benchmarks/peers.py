"""`python -m benchmarks.peers`: step time of DER++ in Avalanche and recollect, on one CPU core.

It needs `pip install avalanche-lib`, which installs torchvision. Both train on the first three
tasks of Sequential MNIST from arrays in memory, with the paper's network, batches of ten and a
memory of 200, without logging or evaluation. Avalanche's DER++ samples ten stored examples per
step; recollect, like the paper, samples twice ten. CPU time of the thread is measured, interleaved,
and the best round of each is reported.
"""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.plain import plain_mlp
from recollect import MLP, DERpp, Fleet
from recollect.streams.data import load
from recollect.train.devices import one_thread

BATCH, MEMORY, RATE, ALPHA, BETA = 10, 200, 0.03, 0.2, 1.0
ROUNDS, TASKS, RUNS = 5, 3, (1, 10)


def tasks(examples: int) -> list[tuple[Tensor, Tensor]]:
    """Return the first tasks of Sequential MNIST, with `examples` examples each."""
    data = load("mnist")
    x, y = data.train_x.flatten(1).float() / 255, data.train_y
    pairs = [torch.tensor([2 * task, 2 * task + 1]) for task in range(TASKS)]
    chosen = [torch.isin(y, pair).nonzero().flatten()[:examples] for pair in pairs]
    return [(x[places], y[places]) for places in chosen]


def theirs(stream: list[tuple[Tensor, Tensor]]) -> Callable[[], float]:
    """Return Avalanche's seconds per step, after the first task."""
    from avalanche.benchmarks import tensors_benchmark
    from avalanche.training.plugins import EvaluationPlugin
    from avalanche.training.supervised.der import DER

    same = {"train_tensors": stream, "test_tensors": stream, "task_labels": [0] * len(stream)}

    def measure() -> float:
        network = plain_mlp(784, 10)
        strategy = DER(
            model=network, optimizer=torch.optim.SGD(network.parameters(), lr=RATE),
            mem_size=MEMORY, batch_size_mem=BATCH, alpha=ALPHA, beta=BETA, train_mb_size=BATCH,
            evaluator=EvaluationPlugin(),
        )  # fmt: skip
        first, *later = tensors_benchmark(**same).train_stream
        strategy.train(first)
        return sum(_seconds(strategy.train, each) for each in later) / _steps(stream)

    return measure


def ours(stream: list[tuple[Tensor, Tensor]], runs: int) -> Callable[[], float]:
    """Return a fleet's seconds per step and run, after the first task."""

    def measure() -> float:
        fleet = Fleet(
            [DERpp(ALPHA, BETA)] * runs, lambda: MLP(784, 10), seeds=range(runs), lr=[RATE] * runs,
            classes=10, shape=(784,), memory=MEMORY, replay=BATCH,
        )  # fmt: skip
        each = [(x.expand(runs, -1, -1), y.expand(runs, -1)) for x, y in stream]
        fleet.learn(*each[0], BATCH)
        taken = sum(_seconds(fleet.learn, *task, BATCH) for task in each[1:])
        return taken / _steps(stream) / runs

    return measure


def main() -> int:
    """Print microseconds per step, and the speed-up over Avalanche."""
    parser = ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--examples", type=int, default=3000, help="examples per task")
    stream = tasks(parser.parse_args().examples)
    with one_thread():
        measures = {"Avalanche": theirs(stream)}
        measures |= {f"recollect, a fleet of {runs}": ours(stream, runs) for runs in RUNS}
        taken = [{name: measure() for name, measure in measures.items()} for _ in range(ROUNDS)]
    best = {name: min(each[name] for each in taken) for name in measures}
    for name, seconds in best.items():
        print(f"{name:26} {1e6 * seconds:6.0f} µs a step {best['Avalanche'] / seconds:6.1f} times")
    return 0


def _steps(stream: list[tuple[Tensor, Tensor]]) -> int:
    return sum(len(y) // BATCH for _, y in stream[1:])


def _seconds(work: Callable[..., object], *given: object) -> float:
    began = time.thread_time()
    work(*given)
    return time.thread_time() - began


if __name__ == "__main__":
    sys.exit(main())
