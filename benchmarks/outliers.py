"""`python -m benchmarks.outliers`: accuracy on streams with outliers, and the cost of the check."""

from __future__ import annotations

import math
import time

import numpy as np
import torch

from recollect import MLP, DERpp, DivergedError, Learner
from recollect.learner.inputs.outliers import Watch
from recollect.train.devices import one_thread

COUNT, FEATURES, CLASSES, BATCH, SEEDS, RATE = 3000, 8, 6, 10, 5, 0.01
# Range of the bad cell of an outlier, as powers of ten; some of the large values are not finite.
STREAMS = {"clean": None, "1e3 to 1e30, NaN, inf": (3, 30), "10 to 1,000": (1, 3)}
CLIPS = {"clip=10, default": {}, "no clipping": {"clip": math.inf}}


def main() -> None:
    """Print a line for each kind of outlier, and one for the time."""
    print(
        f"DER++, MLP {FEATURES}-100-100, {COUNT:,} examples in batches of {BATCH}, {CLASSES} "
        f"classes in turn\n{RATE:.0%} of the examples have one bad cell; means of {SEEDS} seeds: "
        f"held-out accuracy\n"
    )
    with one_thread():
        for clip, options in CLIPS.items():
            for name, powers in STREAMS.items():
                scores = [_held_out(seed, powers, options) for seed in range(SEEDS)]
                mean = np.mean(scores, axis=0)
                print(
                    f"{clip:17s} {name:22s} {mean[0]:6.2f} %   left out {mean[1]:4.1f}   steps "
                    f"undone {mean[2]:4.1f}"
                )
        _print_cost()


def _held_out(
    seed: int, powers: tuple[int, int] | None, options: dict[str, float]
) -> tuple[float, float, float]:
    rng = np.random.default_rng(seed)
    centres = 1.2 * rng.normal(size=(CLASSES, FEATURES))
    turns = np.arange(COUNT) // 250 % CLASSES
    y = np.where(rng.random(COUNT) < 0.3, rng.integers(0, CLASSES, COUNT), turns)
    x = centres[y] + rng.normal(size=(COUNT, FEATURES))
    tested = rng.integers(0, CLASSES, 2000)
    test = centres[tested] + rng.normal(size=(2000, FEATURES))
    if powers is not None:
        for row in np.flatnonzero(rng.random(COUNT) < RATE):
            values = [float(rng.choice([-1, 1]) * 10 ** rng.uniform(*powers))] * 4
            values += [np.nan, np.inf] if powers[1] > 3 else []
            x[row, rng.integers(FEATURES)] = rng.choice(values)
    torch.manual_seed(seed)
    method = DERpp(alpha=0.2, beta=0.5)
    learner = Learner(MLP(FEATURES, 1), method, memory=200, lr=0.05, seed=seed, **options)  # type: ignore[arg-type]
    undone = 0
    for start in range(0, COUNT, BATCH):
        try:
            learner.observe(x[start : start + BATCH], y[start : start + BATCH])
        except DivergedError:
            undone += 1
    right = np.array(learner.predict(test)) == tested
    return 100 * float(right.mean()), float(learner.metrics().left_out), undone


def _print_cost() -> None:
    x = torch.randn(200, BATCH, 784)
    labels = [0] * BATCH
    learner = Learner(MLP(784, 1), DERpp(), memory=500)
    spent: dict[str, list[float]] = {"check": [], "observe": []}
    watch = Watch.empty()
    for _ in range(10):
        started = time.thread_time()
        for batch in x:
            watch = watch.judge(batch, labels, lambda label: 0)[0].after(BATCH, {})
        spent["check"].append((time.thread_time() - started) / len(x))
        started = time.thread_time()
        for batch in x:
            learner.observe(batch, labels)
        spent["observe"].append((time.thread_time() - started) / len(x))
    check, observe = (1e6 * float(np.median(times)) for times in spent.values())
    print(
        f"\nthe check takes {check:.0f} of {observe:.0f} µs of observe, {check / observe:.1%} (MLP "
        f"784-100-100)"
    )


if __name__ == "__main__":
    main()
