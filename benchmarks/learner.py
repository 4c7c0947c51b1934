"""`make bench-learner`: what `Learner.observe` costs over the plain loop, on one CPU core.

Each step learns from ten examples with DER++ and the paper's MLP. The learner checks what arrives,
predicts it first, and can take the step back; the plain loop does nothing of this. What is measured
is the time of the thread on its core, so that it does not count when others have the core. The
speed of a shared machine changes even so: the variants take turns, each round gives a ratio, and
the median of these is what counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.plain import PlainDERpp, plain_mlp
from recollect import MLP, DERpp, Learner
from recollect.train.parallel import one_thread

INPUTS, CLASSES, BATCH, MEMORY, REPLAY = 784, 10, 10, 500, 10
ROUNDS, STEPS = 40, 64
AT_MOST = 1.3
PLAIN = "plain eager loop"


def main() -> int:
    """Measure, and print one line for each network; the result is 1 if the promise is not kept."""
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
    """A stretch of steps of each, on the same examples."""
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
    """The microseconds of a step of every variant in every round; they take turns."""
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
