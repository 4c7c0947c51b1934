"""Figure of the Fisher matrix energy during training: ER against DER, and the source of logits.

The paper takes L_k from Liao et al. (2018) and does not repeat its definition. Here it is

    L_k = sum over steps j = 1..k of (rate / B_j) * |F_j|,    F_j = 1/B_j * sum_i g_i g_i^T,

where |.| is the Frobenius norm, B_j the size of the incoming batch of step j, and g_i the gradient
of the cross-entropy of its i-th example at the weights before that step. F_j has one row per weight
of the network and is never computed: with the Gram matrix G of the g_i, |F_j| = |G| / B_j.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import torch
from torch import Tensor

from recollect.experiments import paper
from recollect.experiments.figures.chart import Chart, title_of
from recollect.experiments.figures.drawing import Drawing, Plot
from recollect.experiments.figures.runs import Line, Point
from recollect.experiments.figures.task_end_logits import DERAtEnds, DERppAtEnds
from recollect.experiments.results import Mean
from recollect.methods import DER, ER, DERpp, Method, hyperparameters
from recollect.nets import MLP
from recollect.streams import Benchmark, Stream
from recollect.train import Fleet
from recollect.train.evaluate import accuracy

BUFFERS = (200, 500)
RATE = 0.03
KINDS: tuple[type[Method], ...] = (ER, DER, DERpp, DERAtEnds, DERppAtEnds)
SIDES = {
    "ER against DER and DER++": ("er", "der", "derpp"),
    "logits along the way or at task ends": ("der", "der-at-ends", "derpp", "derpp-at-ends"),
}
STRETCH = 4000
PLACES = 150
FIRST_SHOWN = 100


@final
@dataclass(frozen=True)
class Curve:
    """L_k of one method with one buffer: mean and standard deviation over seeds at some steps.

    `accuracy` is the mean final accuracy over seeds, and `accuracy_std` its standard deviation.
    """

    method: str
    buffer: int
    steps: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    accuracy: float
    accuracy_std: float

    def __post_init__(self) -> None:
        if not len(self.steps) == len(self.mean) == len(self.std) > 0:
            raise ValueError("a curve must have a mean and a standard deviation for every step")
        if min(self.mean) <= 0 or min(self.std) < 0 or not 0 <= self.accuracy <= 100:
            raise ValueError("sums must be positive, and accuracies between 0 and 100")


@final
@dataclass(frozen=True)
class FisherData:
    """All curves, at one learning rate, and the step at which each task ends."""

    benchmark: str
    rate: float
    seeds: int
    ends: tuple[int, ...]
    curves: tuple[Curve, ...]


def data(
    known: Benchmark,
    stream: Stream,
    seeds: Sequence[int],
    buffers: Sequence[int] = BUFFERS,
    rate: float = RATE,
    report: Callable[[str], None] = lambda text: None,
) -> FisherData:
    """Train every method with every buffer at the same learning rate, and record L_k.

    The learning rate is a factor of L_k, so methods with different rates would not be comparable.
    The other hyper-parameters are the paper's.
    """
    curves = []
    for buffer in buffers:
        for kind in KINDS:
            report(f"training {title_of(kind.name)} with {buffer} examples on {known.name}")
            curves.append(_curve(known, stream, kind, seeds, buffer, rate))
    lengths = [math.ceil(sum(stream.parts(t)) / known.batch) for t in range(stream.tasks)]
    return FisherData(
        known.name, rate, len(seeds), tuple(np.cumsum(lengths).tolist()), tuple(curves)
    )


def weighted_sums(fleet: Fleet, stream: Stream, batch: int, rates: Tensor) -> Tensor:
    """Train a fleet on a stream of tasks, and return L_k of every run, `[steps, K]`."""
    terms = []
    for task in range(stream.tasks):
        pick = partial(stream.pick, fleet.seeds, task)
        count = sum(stream.parts(task))
        fleet.start_task(pick, count, batch)
        length = batch * max(STRETCH // batch, 1)
        for first in range(0, count, length):
            until = min(first + length, count)
            x, y = pick(stream.order(fleet.seeds, task, 0, first, until))
            for start in range(0, until - first, batch):
                some, labels = x[:, start : start + batch], y[:, start : start + batch]
                terms.append(energy(fleet, some, labels) * rates / labels.shape[1])
                fleet.learn(some, labels, batch)
        fleet.end_task(pick, count, batch)
        fleet.next_task(count)
    return torch.stack(terms).double().cumsum(0)


def energy(fleet: Fleet, x: Tensor, y: Tensor) -> Tensor:
    """Frobenius norm `[K]` of the empirical Fisher matrix of a batch, for each network."""
    return fleet.model.gradient_dots(x, y).square().sum((1, 2)).sqrt() / y.shape[1]


def drawing(drawn: FisherData) -> Drawing:
    """Draw two plots per buffer as in the paper: ER against DER(++), and the kinds of logits."""
    buffers = list(dict.fromkeys(curve.buffer for curve in drawn.curves))
    limits = (
        min(float(np.interp(drawn.ends[-1] / FIRST_SHOWN, c.steps, c.mean)) for c in drawn.curves),
        1.5 * max(c.mean[-1] + c.std[-1] for c in drawn.curves),
    )
    pairs = [
        (what, buffer, [c for c in drawn.curves if c.buffer == buffer and c.method in methods])
        for what, methods in SIDES.items()
        for buffer in buffers
    ]
    return Drawing(
        f"The energy of the Fisher matrix along training on {drawn.benchmark}",
        "L(k): sum over the steps so far of rate / B · |F|, where F is the empirical Fisher "
        "matrix of the arriving batch (of B examples) before the step:\n"
        "the mean over its examples of g·gᵀ, g: gradient of the example's cross-entropy; |·|: "
        f"Frobenius norm. All methods with learning rate {drawn.rate:g}.\n"
        f"Mean over {drawn.seeds} seeds; bands: one standard deviation. Grey lines: task ends. "
        "Lower is better.",
        [
            Plot(
                f"({chr(ord('a') + number)}) {what}, buffer {buffer}",
                partial(_draw, curves, drawn.ends, limits),
                drawn.benchmark,
                buffer,
            )
            for number, (what, buffer, curves) in enumerate(pairs)
            if curves
        ],
        columns=len(buffers),
        size=(5.0, 3.2),
    )


def _curve(
    known: Benchmark,
    stream: Stream,
    kind: type[Method],
    seeds: Sequence[int],
    buffer: int,
    rate: float,
) -> Curve:
    values = paper.hyperparameters(known.paper, kind.name.removesuffix("-at-ends"), buffer)
    runs = len(seeds)
    fleet = Fleet(
        [kind(**{name: values[name] for name in hyperparameters(kind) if name in values})] * runs,
        partial(MLP, math.prod(stream.shape), stream.classes),
        seeds=seeds, lr=[rate] * runs, classes=stream.classes, shape=stream.shape, memory=buffer,
        replay=known.replay, stored=stream.dtype, tasks=stream.tasks,
        per_task=max(len(stream.task_classes(task)) for task in range(stream.tasks)),
    )  # fmt: skip
    sums = weighted_sums(fleet, stream, known.batch, torch.full((runs,), rate))
    steps = np.unique(np.linspace(1, len(sums), PLACES).round().astype(int))
    means = [Mean.of(row.tolist()) for row in sums[torch.from_numpy(steps) - 1]]
    right = accuracy(fleet, stream, range(stream.tasks))[stream.setting].mean(1)
    end = Mean.of(right.tolist())
    assert end is not None
    return Curve(
        kind.name, buffer, tuple(steps.tolist()),
        tuple(mean.mean for mean in means if mean), tuple(mean.std for mean in means if mean),
        end.mean, end.std,
    )  # fmt: skip


def _draw(
    curves: Sequence[Curve], ends: Sequence[int], limits: tuple[float, float], chart: Chart
) -> None:
    chart.log_scale("y", lambda value: f"{value:g}")
    for end in ends[:-1]:
        chart.axes.axvline(end, color="#bbbbbb", linewidth=0.8)
    for curve in curves:
        points = zip(curve.steps, curve.mean, curve.std, strict=True)
        chart.line(
            Line(curve.method, tuple(Point(*point, 0, curve.buffer) for point in points)),
            partial(_words, curve), band=True, markers=False,
        )  # fmt: skip
    chart.axes.set(xlabel="steps k", ylabel="L(k)", ylim=limits)


def _words(curve: Curve, point: Point) -> list[str]:
    return [
        f"after {point.x:g} steps: {point.mean:.4g} ±{point.std:.4g}",
        f"accuracy at the end {curve.accuracy:.2f} ±{curve.accuracy_std:.2f}",
    ]
