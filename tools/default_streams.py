"""The streams on which defaults of a learner are compared: examples in order, and some held out."""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import torch
from sklearn.datasets import load_digits

from recollect.streams import TaskStream, benchmark

__all__ = ["STREAMS", "Examples", "electricity"]

HELD_OUT = 5  # every fifth example is tested at the end, and never learned
SENSOR_ROWS = 50  # readings of every mode in every round of the sensors example
FASHION = 100  # examples of every class
PRICES = 1250  # consecutive rows of electricity


@final
@dataclass(frozen=True)
class Examples:
    """Inputs and labels as they arrive, and those that are tested at the end."""

    x: np.ndarray
    y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    standardised: bool = True

    def first(self, count: int) -> Examples:
        """So many examples, evenly spaced, with all that are tested."""
        if count >= len(self.y):
            return self
        index = np.linspace(0, len(self.y) - 1, count).astype(int)
        return Examples(self.x[index], self.y[index], self.test_x, self.test_y, self.standardised)


def _split(x: np.ndarray, y: np.ndarray, standardised: bool = True) -> Examples:
    held = np.arange(len(y)) % HELD_OUT == HELD_OUT - 1
    return Examples(x[~held], y[~held], x[held], y[held], standardised)


def _digits(seed: int) -> Examples:
    x, y = load_digits(return_X_y=True)
    return _split(x.astype(np.float32), y)


def _sorted_digits(seed: int) -> Examples:
    """The digits 0 and 1 first, then 2 and 3, and so on."""
    found = _digits(seed)
    order = np.argsort(found.y // 2, kind="stable")
    return Examples(found.x[order], found.y[order], found.test_x, found.test_y)


def _digits_360(seed: int) -> Examples:
    stream, seeds = benchmark("digits-360").stream(), torch.tensor([seed])
    index = stream.order(seeds, 0, 0, 0, sum(stream.parts(0)))
    arrived, tested = stream.pick(seeds, 0, index), stream.test(seeds, 0)
    train, test = (
        (each.x[0].flatten(1).float().numpy() / 255, each.y[0].numpy())
        for each in (arrived, tested)
    )
    return Examples(*train, *test, standardised=False)


def _sensors(seed: int) -> Examples:
    from examples.sensors import make_csv, read_csv

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "machine.csv"
        make_csv(path, SENSOR_ROWS)
        _, x, y = read_csv(path)
    return _split(x, np.array(y))


def _fashion(seed: int) -> Examples:
    """Clothes sorted by class."""
    stream = benchmark("seq-fashion-mnist").stream()
    assert isinstance(stream, TaskStream)
    index = np.concatenate([
        torch.where(stream.train_y == label)[0][:FASHION].numpy() for label in range(10)
    ])  # fmt: skip
    x = stream.train_x[index].flatten(1).float().numpy() / 255
    test_x = stream.test_x[:500].flatten(1).float().numpy() / 255
    return Examples(
        x, stream.train_y[index].numpy(), test_x, stream.test_y[:500].numpy(), standardised=False
    )


STREAMS: Mapping[str, Callable[[int], Examples]] = {
    "digits": _digits,
    "digits, sorted": _sorted_digits,
    "digits-360": _digits_360,
    "sensors": _sensors,
    "Fashion-MNIST, sorted": _fashion,
}


def electricity(path: Path) -> Callable[[int], Examples]:
    """The first rows of elec.csv (prices rising or falling; the class is the last column)."""
    with path.open(newline="") as file:
        rows = [row for _, row in zip(range(PRICES + 1), csv.reader(file), strict=False)][1:]
    if len(rows) < PRICES:
        sys.exit(f"{path} has fewer than {PRICES} rows")
    x = np.array([[float(cell) for cell in row[:-1]] for row in rows], dtype=np.float32)
    y = np.array([row[-1] for row in rows])
    return lambda seed: _split(x, y)
