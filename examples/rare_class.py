"""Rare classes: recall with a reservoir and with a class-balanced memory.

    python examples/rare_class.py
    python examples/rare_class.py seq-mnist --buffer 200

In a sequential benchmark, one class of the first task makes up 0.5 % of the stream. A reservoir
stores hardly any of its examples; a class-balanced memory stores as many as it has room for.
"""

from __future__ import annotations

import argparse
from statistics import fmean, stdev

import recollect
from recollect.methods import ERACE, ERRing, Method
from recollect.streams import TaskStream, benchmark, imbalanced

RARE, SHARE = 1, 0.005
METHODS: tuple[Method, ...] = (
    recollect.ER(),
    recollect.ER(balanced=True),
    ERACE(),
    ERACE(balanced=True),
    recollect.DERpp(alpha=0.2, beta=1.0),
    recollect.DERpp(alpha=0.2, beta=1.0, balanced=True),
    ERRing(),
)


def stream_of(name: str) -> TaskStream:
    """Return the stream of a benchmark with the rare class reduced to its share."""
    whole = benchmark(name).stream()
    assert isinstance(whole, TaskStream)
    count = int((whole.train_y == RARE).sum())
    wanted = SHARE / (1 - SHARE) * (len(whole.train_y) - count)
    return imbalanced(whole, {RARE: wanted / count})


def main(name: str, buffer: int, seeds: int = 10) -> dict[str, float]:
    """Print and return the recall of the rare class for each method, averaged over seeds."""
    stream, recalls = stream_of(name), {}
    print(f"{name}, buffer {buffer}, {seeds} seeds: recall of the rare class, Class-IL accuracy")
    for method in METHODS:
        results = recollect.run(
            stream, method, buffer=buffer, seeds=seeds, lr=0.03, bs=10, mbs=10, confusion=True
        )
        recall = [(run.class_accuracy["class"][RARE] or 0.0) / 100 for run in results]
        balanced = ", balanced" if getattr(method, "balanced", False) else ""
        title = f"{method.title}{balanced}"
        recalls[title] = fmean(recall)
        mean = results.summaries()[0].mean("accuracy", "class")
        print(f"{title:17s} {fmean(recall):.2f} ±{stdev(recall):.2f}   {mean}", flush=True)
    return recalls


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("benchmark", nargs="?", default="seq-digits")
    parser.add_argument("--buffer", type=int, default=50)
    given = parser.parse_args()
    main(given.benchmark, given.buffer)
