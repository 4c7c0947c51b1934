"""The size of two estimates of the Fisher information while a network learns the first task."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import geometric_mean
from typing import Any

import torch
from tools.collect import with_plain_command
from tools.reduced_methods import fisher_exact, fisher_of_labels
from tools.table_parts import markdown

from recollect import SGD, Callback, run
from recollect.core.random import Purpose, bits
from recollect.streams import TaskStream
from recollect.train import Point

__all__ = ["Row", "sizes", "sizes_table"]

Row = dict[str, Any]
ESTIMATES = ("exact", "label", "one by one")


def sizes(
    stream: TaskStream, seed: int, epochs: Sequence[int], images: int, **options: Any
) -> list[Row]:
    """Train on the first task; return sums over all weights, after some of its epochs.

    `options` are further arguments of `recollect.run`, `bs` among them.
    """
    first = replace(
        stream, name=f"{stream.name}-first", train_ids=stream.train_ids[:1],
        test_ids=stream.test_ids[:1], classes_of=stream.classes_of[:1],
    )  # fmt: skip
    noted = _Sizes(-(-len(first.train_ids[0]) // options["bs"]), epochs, images)
    (result,) = run(first, SGD, seeds=[seed], epochs=max(epochs), callbacks=noted, **options)
    made = with_plain_command(result).as_json()["made"]
    return [{"seed": seed, **each, "made": made} for each in noted.rows]


def sizes_table(rows: Iterable[Row]) -> str:
    """Format geometric means over seeds, in Markdown."""
    found, lines = [*rows], []
    for epoch in sorted({row["epoch"] for row in found}):
        mine = [row for row in found if row["epoch"] == epoch]
        means = [geometric_mean(row[name] for row in mine) for name in ESTIMATES]
        ratios = [f"{means[0] / each:.1f}" for each in means[1:]]
        lines.append([str(epoch), str(len(mine)), *(f"{each:.1f}" for each in means), *ratios])
    head = ["after epoch", "seeds", "exact", "label's term", "one image at a time",
            "exact / label's term", "exact / one image at a time"]  # fmt: skip
    return markdown(head, lines)


class _Sizes(Callback):
    only_observes = True

    def __init__(self, every: int, epochs: Sequence[int], images: int) -> None:
        self.every, self.epochs, self.images, self.rows = every, epochs, images, list[Row]()

    def on_steps(self, point: Point) -> None:
        epoch = point.clock.steps // self.every
        if epoch not in self.epochs:
            return
        fleet, count = point.fleet, min(self.images, sum(point.stream.parts(0)))
        x, y = point.stream.pick(fleet.seeds, 0, torch.arange(count).expand(1, -1))
        found = (
            fisher_exact(fleet.model, x),
            fisher_of_labels(fleet.model, x, y, fleet.seeds, training=False),
            fisher_of_labels(fleet.model, x, y, bits(fleet.seeds, Purpose.RECORD, epoch)),
        )
        sums = [sum(float(part.sum()) for part in each) for each in found]
        self.rows.append({"epoch": epoch, **dict(zip(ESTIMATES, sums, strict=True))})
