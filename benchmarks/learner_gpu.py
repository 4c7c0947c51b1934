"""`python -m benchmarks.learner --device cuda`: how long `Learner.observe` takes on a GPU.

DER++ learns from batches of 32 that come from the host and replays 32, with ResNet-18 and with the
paper's MLP. The time is that of the whole call: checks, transfer, prediction, step and answer. The
slowest of all calls counts too, from the first on, with all that is recorded on the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

from recollect import MLP, DERpp, DivergedError, Learner, ResNet18

BATCH, MEMORY, REPLAY, CLASSES = 32, 200, 32, 10
WARM_UP, STEPS = 60, 300
LONGEST = 2000.0


@dataclass(frozen=True)
class Case:
    """A network, the shape of its examples, and at most how many milliseconds a call takes."""

    title: str
    network: Callable[[], nn.Module]
    shape: tuple[int, ...]
    compiled: bool
    at_most: float


CASES = (
    Case("ResNet-18", partial(ResNet18, CLASSES), (3, 32, 32), False, 6.0),
    Case("ResNet-18, compiled", partial(ResNet18, CLASSES), (3, 32, 32), True, 4.0),
    Case("MLP", partial(MLP, 784, CLASSES), (784,), False, 0.6),
)


def main(device: str, cases: tuple[Case, ...] = CASES, steps: int = STEPS) -> int:
    """Measure, and print one line for each promise; the result is 1 if one of them is not kept."""
    where = torch.device(device)
    if where.type == "cuda":
        if not torch.cuda.is_available():
            raise SystemExit("this benchmark needs a GPU that torch can use")
        torch.zeros(1, device=where)
        print(f"{torch.cuda.get_device_name(where)}, torch {torch.__version__}")
    print(
        f"DER++, batches of {BATCH} from the host, memory {MEMORY}, replays of {REPLAY}; a call of "
        f"observe in ms\n{'':24s}{'median':>9s}{'p99':>9s}{'slowest':>10s}{'call':>6s}"
    )
    promises: list[tuple[str, float, float]] = []
    for case in cases:
        spent, execution, undone = _measured(case, where, steps)
        usual, slowest, call = spent[WARM_UP:], float(spent.max()), int(spent.argmax())
        median, p99 = float(np.median(usual)), float(np.percentile(usual, 99))
        print(f"{case.title:24s}{median:9.2f}{p99:9.2f}{slowest:10.1f}{call:6d}   {execution}")
        promises.append((f"ms, {case.title}", median, case.at_most))
        if not case.compiled:
            promises.append((f"ms, {case.title}, slowest call", slowest, LONGEST))
        promises.append((f"failed steps that were not undone, {case.title}", 1.0 - undone, 0.0))
    print()
    kept = [_kept(*each) for each in promises]
    return 0 if all(kept) else 1


def _measured(case: Case, device: torch.device, steps: int) -> tuple[np.ndarray, str, float]:
    """The milliseconds of every call, how steps were taken, and whether a failed one was undone."""
    torch.manual_seed(0)
    x = torch.rand(16 * BATCH, *case.shape).split(BATCH)  # type: ignore[no-untyped-call]
    y = torch.randint(CLASSES, (16, BATCH)).tolist()
    learner = Learner(
        case.network(), DERpp(alpha=0.1, beta=0.5), memory=MEMORY, replay=REPLAY, lr=0.03,
        classes=range(CLASSES), device=device, compiled=case.compiled,
    )  # fmt: skip
    spent = np.zeros(WARM_UP + steps)
    for number in range(len(spent)):
        began = time.perf_counter()
        learner.observe(x[number % 16], y[number % 16])
        spent[number] = (time.perf_counter() - began) * 1e3
    before = learner._packed()
    try:
        learner.observe(torch.full_like(x[0], 3e38), y[0], on_outlier="learn")
    except DivergedError:
        undone = float(learner._packed() == before)
    else:
        undone = 0.0
    assert learner._now.engine is not None
    return spent, learner._now.engine.fleet.execution, undone


def _kept(what: str, value: float, at_most: float) -> bool:
    kept = value <= at_most
    print(f"{'ok  ' if kept else 'MISS'} {value:8.2f} <= {at_most:<5g} {what}")
    return kept
