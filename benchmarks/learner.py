"""`make bench-learner`: overhead of `Learner.observe` over a plain loop, on one CPU core.

Each step learns from ten examples with DER++ and the paper's MLP. Unlike the plain loop, the
learner validates its input, predicts it first, and can undo the step. CPU time of the thread is
measured, so that other processes on the core do not count. As the speed of a shared machine still
varies, the variants are interleaved, and the median of the ratios of all rounds is reported.

With `--device cuda` it measures `observe` on a GPU: see `benchmarks/learner_gpu.py`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks import learner_gpu
from benchmarks.plain import PlainDERpp, plain_mlp
from recollect import MLP, DERpp, Learner
from recollect.train.devices import one_thread

INPUTS, CLASSES, BATCH, MEMORY, REPLAY = 784, 10, 10, 500, 10
ROUNDS, STEPS = 40, 64
AT_MOST = 1.3
PLAIN = "plain eager loop"


def main() -> int:
    """Measure, and print one line for each network; return 1 if the target is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learner")
    parser.add_argument("--device", default="cpu", help="cpu, or a GPU such as cuda")
    device: str = parser.parse_args().device
    if device != "cpu":
        return learner_gpu.main(device)
    with one_thread():
        rounds = _rounds(_variants())
    plain = rounds.pop(PLAIN)
    print(
        f"DER++, MLP {INPUTS}-100-100-{CLASSES}, batches of {BATCH}, memory {MEMORY}, "
        f"replays of {REPLAY}, one CPU core\nmedian of {ROUNDS} rounds of {STEPS} steps\n"
        f"{PLAIN:33s} {np.median(plain):6.0f} µs"
    )
    ratios = {name: float(np.median(spent / plain)) for name, spent in rounds.items()}
    for name, spent in rounds.items():
        print(f"{name:33s} {np.median(spent):6.0f} µs   {ratios[name]:5.2f} times")
    print()
    kept = [_kept(name, ratio) for name, ratio in ratios.items()]
    return 0 if all(kept) else 1


def _variants() -> dict[str, Callable[[], None]]:
    """Return a function per variant that takes some steps on the same examples."""
    torch.manual_seed(0)
    x, y = torch.rand(STEPS * BATCH, INPUTS), torch.randint(0, CLASSES, (STEPS * BATCH,))
    loop = PlainDERpp(plain_mlp(INPUTS, CLASSES), x[0], CLASSES, MEMORY, REPLAY)
    networks = {
        "observe, recollect.MLP": MLP(INPUTS, CLASSES),
        "observe, nn.Sequential": plain_mlp(INPUTS, CLASSES),
    }
    learners = {
        name: Learner(network, DERpp(alpha=0.2, beta=1.0), memory=MEMORY, replay=REPLAY, lr=0.03)
        for name, network in networks.items()
    }

    def over(step: Callable[[torch.Tensor, torch.Tensor], object]) -> Callable[[], None]:
        def stretch() -> None:
            for start in range(0, STEPS * BATCH, BATCH):
                step(x[start : start + BATCH], y[start : start + BATCH])

        return stretch

    return {
        PLAIN: over(loop.step),
        **{name: over(learner.observe) for name, learner in learners.items()},
    }


def _rounds(variants: dict[str, Callable[[], None]]) -> dict[str, np.ndarray]:
    """Return the microseconds per step of each variant in each round, interleaved."""
    found = {name: np.zeros(ROUNDS) for name in variants}
    for stretch in variants.values():
        stretch()
    for number in range(ROUNDS):
        for name, stretch in variants.items():
            began = time.thread_time()
            stretch()
            found[name][number] = (time.thread_time() - began) / STEPS * 1e6
    return found


def _kept(what: str, value: float) -> bool:
    kept = value <= AT_MOST
    print(f"{'ok  ' if kept else 'MISS'} {value:5.2f} <= {AT_MOST:g}   {what} over the plain loop")
    return kept


if __name__ == "__main__":
    sys.exit(main())
