"""The hyper-parameters that are used where none are given: the paper's, or those stated here.

The paper has no figures on some benchmarks. There, a method learns as on the benchmark that is most
like it, or with values that were found in a small trial.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from recollect.experiments import paper

__all__ = ["hyperparameters", "search_space"]

# The batch and replay sizes stay those of the benchmark itself.
LIKE = {"seq-cifar100": "seq-cifar10", "seq-fashion-mnist": "seq-mnist"}
SIZES = ("bs", "mbs")

# One pass in batches of 10. Three seeds on CIFAR-100 with the rates 0.03 and 0.1: the lower one was
# better for all methods but ER, and so was a beta of 1 for DER++, with an alpha that is larger the
# smaller the buffer is (docs/benchmarks/online-cifar10.md). No search was made.
ONLINE_RATE = 0.03
ONLINE: Mapping[str, Mapping[int | None, Mapping[str, float]]] = {
    "der": {None: {"alpha": 0.3}},
    "derpp": {500: {"alpha": 0.5, "beta": 1.0}, 2000: {"alpha": 0.03, "beta": 1.0}},
}


def hyperparameters(benchmark: str, method: str, buffer: int | None) -> dict[str, float]:
    """What is used for a method at this buffer, or else at the nearest one that is known.

    >>> hyperparameters("seq-cifar100", "derpp", 200)
    {'lr': 0.03, 'alpha': 0.1, 'beta': 0.5}
    >>> hyperparameters("online-cifar100", "derpp", 5000)
    {'lr': 0.03, 'alpha': 0.03, 'beta': 1.0}
    """
    if benchmark in LIKE:
        found = paper.hyperparameters(LIKE[benchmark], method, buffer)
        return {name: value for name, value in found.items() if name not in SIZES}
    if not benchmark.startswith("online-"):
        return paper.hyperparameters(benchmark, method, buffer)
    by_buffer = ONLINE.get(method, {None: {}})
    size = None
    if buffer is not None and None not in by_buffer:
        sizes = [each for each in by_buffer if each is not None]
        size = min(sizes, key=lambda each: abs(math.log(each / buffer)))
    return {"lr": ONLINE_RATE, **by_buffer[size]}


def search_space(benchmark: str, method: str) -> dict[str, list[float]]:
    """The values that the paper tried for a method, here or on the benchmark that is most alike.

    >>> search_space("seq-fashion-mnist", "er")
    {'lr': [0.03, 0.01, 0.1]}
    """
    return paper.search_space(LIKE.get(benchmark, benchmark), method)
