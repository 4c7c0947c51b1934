"""Regression on a stream whose conditions come back: does a network still know last year's summer?

Without an argument, the stream is synthetic. With the path of ETTh1.csv (github.com/zhouhaoyi/
ETDataset), it is real: the oil temperature of a transformer, of its loads and the hour. The seasons
of a year are learned one after the other. Tested are days that were held out, of all seasons: every
season will come back.

    python examples/returning_seasons.py
    python examples/returning_seasons.py ETTh1.csv
"""

from __future__ import annotations

import csv
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from recollect import from_arrays, run
from recollect.streams.tasks import TaskStream

SEASONS = 4
METHODS: dict[str, Any] = {
    "sgd": {}, "er": {"buffer": 200}, "derpp": {"buffer": 200, "alpha": 0.5, "beta": 1.0},
    "joint": {},
}  # fmt: skip
LOADS = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL")


def synthetic(rows: int = 600) -> TaskStream:
    """Four seasons in which the same inputs mean other values; a weak input tells them apart."""
    rng = np.random.default_rng(0)

    def year() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        season = np.repeat(np.arange(SEASONS), rows)
        x = rng.normal(size=(len(season), 6)).astype(np.float32)
        angle = np.pi / 2 * season
        x[:, 4], x[:, 5] = np.cos(angle) + 0.1 * x[:, 4], np.sin(angle) + 0.1 * x[:, 5]
        y = np.cos(angle) * x[:, 0] + np.sin(angle) * x[:, 1] + 0.3 * x[:, 2] * x[:, 3]
        return x, y + 0.1 * rng.normal(size=len(y)), season

    (x, y, season), (x_test, y_test, season_test) = year(), year()
    return from_arrays(
        x, y, scenario="domain", task_ids=season, test=(x_test, y_test),
        test_task_ids=season_test, target="regression", name="seasons",
    )  # fmt: skip


def transformer(path: Path) -> TaskStream:
    """The oil temperature by loads and hour: a task is a quarter of the first year."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    when = [datetime.fromisoformat(row["date"]) for row in rows]
    hour = 2 * np.pi * np.array([each.hour for each in when]) / 24
    loads = np.array([[float(row[name]) for name in LOADS] for row in rows])
    x = np.column_stack([loads, np.sin(hour), np.cos(hour)])
    y = np.array([float(row["OT"]) for row in rows])
    days = np.array([(each - when[0]).days for each in when])
    year = days < 365
    train, test = year & (days % 5 > 0), year & (days % 5 == 0)
    season = np.minimum(days * SEASONS // 365, SEASONS - 1)
    # Scaled by what the first season shows: nothing later is known when it begins.
    known = train & (season == 0)
    x = ((x - x[known].mean(0)) / x[known].std(0)).astype(np.float32)
    y = (y - y[known].mean()) / y[known].std()
    return from_arrays(
        x[train], y[train], scenario="domain", task_ids=season[train],
        test=(x[test], y[test]), test_task_ids=season[test], target="regression", name="ett",
    )  # fmt: skip


def main() -> None:
    """Train SGD, ER and DER++ on ten seeds, as fleets, and print the table."""
    stream = transformer(Path(sys.argv[1])) if len(sys.argv) > 1 else synthetic()
    for method, told in METHODS.items():
        results = run(stream, method, lr=0.01, epochs=5, clip=5.0, **told)
        forgetting = results.summaries()[0].mean("forgetting", "rmse")
        print(f"{results}; RMSE forgotten {forgetting or '-'}")


if __name__ == "__main__":
    main()
