"""A class that is hardly ever seen: what memories keep of it, and whether the network knows it.

    python examples/rare_class.py
    python examples/rare_class.py seq-mnist --buffer 200

Of the classes of a sequential benchmark, one of the first task makes up 0.5 % of the stream. A
reservoir keeps hardly any example of it; a class-balanced memory all that there is room for.
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
    """The stream of a benchmark in which the rare class has its share of the examples."""
    whole = benchmark(name).stream()
    assert isinstance(whole, TaskStream)
    count = int((whole.train_y == RARE).sum())
    wanted = SHARE / (1 - SHARE) * (len(whole.train_y) - count)
    return imbalanced(whole, {RARE: wanted / count})


def main(name: str, buffer: int, seeds: int = 10) -> dict[str, float]:
    """The recall of the rare class for every method, a mean over seeds, which is printed too."""
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
