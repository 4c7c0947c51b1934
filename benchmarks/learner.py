"""`make bench-learner`: what `Learner.observe` costs over the plain loop, on one CPU core.

Each step learns from ten examples with DER++ and the paper's MLP. The learner checks what arrives,
predicts it first, and can take the step back; the plain loop does nothing of this. What is measured
is the time of the thread on its core, so that it does not count when others have the core.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import torch

from benchmarks.plain import PlainDERpp, plain_mlp
from recollect import MLP, DERpp, Learner
from recollect.train.parallel import one_thread

INPUTS, CLASSES, BATCH, MEMORY, REPLAY = 784, 10, 10, 500, 10
ROUNDS, STEPS = 40, 64
AT_MOST = 1.3


def main() -> int:
    """Measure, and print one line for each network; the result is 1 if the promise is not kept."""
    with one_thread():
        best = _best(_variants())
    plain = best.pop("plain eager loop")
    print(
        f"DER++, MLP {INPUTS}-100-100-{CLASSES}, batches of {BATCH}, memory {MEMORY}, "
        f"replays of {REPLAY}, one CPU core\nplain eager loop                  {plain:6.0f} µs"
    )
    for name, spent in best.items():
        print(f"{name:33s} {spent:6.0f} µs   {spent / plain:5.2f} times")
    print()
    kept = [_kept(name, spent / plain) for name, spent in best.items()]
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
        "plain eager loop": over(loop.step),
        **{name: over(learner.observe) for name, learner in learners.items()},
    }


def _best(variants: dict[str, Callable[[], None]]) -> dict[str, float]:
    """The best time of a step of every variant in microseconds; they take turns."""
    best = dict.fromkeys(variants, float("inf"))
    for _ in range(ROUNDS):
        for name, stretch in variants.items():
            began = time.thread_time()
            stretch()
            best[name] = min(best[name], (time.thread_time() - began) / STEPS * 1e6)
    return best


def _kept(what: str, value: float) -> bool:
    kept = value <= AT_MOST
    print(f"{'ok  ' if kept else 'MISS'} {value:5.2f} <= {AT_MOST:g}   {what} over the plain loop")
    return kept


if __name__ == "__main__":
    sys.exit(main())
