"""Continual regression on a stream with recurring seasons.

Without an argument, the stream is synthetic. With the path of ETTh1.csv (github.com/zhouhaoyi/
ETDataset), the target is the oil temperature of a transformer, and the inputs are its loads and the
hour. The seasons of a year are learned one after the other, and evaluated on held-out days of all
seasons, as every season will return.

    python examples/returning_seasons.py
    python examples/returning_seasons.py ETTh1.csv

With --next-year, the test set is the second year, with a higher learning rate and without gradient
clipping.

    python examples/returning_seasons.py ETTh1.csv --next-year
"""

from __future__ import annotations

import argparse
import csv
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
    """Generate four seasons with different targets for the same inputs; a weak input differs."""
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


def transformer(path: Path, *, next_year: bool = False) -> TaskStream:
    """Load oil temperatures with loads and hour; a task is a quarter of the first year."""
    if not path.is_file():
        raise SystemExit(f"{path} is not there: get ETT-small/ETTh1.csv of zhouhaoyi/ETDataset")
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
    if next_year:
        train, test = year, (days >= 365) & (days < 730)
    season = np.minimum(days % 365 * SEASONS // 365, SEASONS - 1)
    # Scaled by the first season alone, as later ones are unknown at that time.
    known = train & (season == 0)
    x = ((x - x[known].mean(0)) / x[known].std(0)).astype(np.float32)
    y = (y - y[known].mean()) / y[known].std()
    return from_arrays(
        x[train], y[train], scenario="domain", task_ids=season[train],
        test=(x[test], y[test]), test_task_ids=season[test], target="regression", name="ett",
    )  # fmt: skip


def main() -> None:
    """Train SGD, ER and DER++ on ten seeds, as fleets, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path, nargs="?", help="ETTh1.csv (default: synthetic data)")
    parser.add_argument("--next-year", action="store_true", help="test on the second year")
    chosen = parser.parse_args()
    path, next_year = chosen.path, chosen.next_year
    stream = transformer(path, next_year=next_year) if path else synthetic()
    training: dict[str, Any] = {"lr": 0.03} if next_year else {"lr": 0.01, "clip": 5.0}
    for method, told in METHODS.items():
        results = run(stream, method, epochs=5, **training, **told)
        forgetting = results.summaries()[0].mean("forgetting", "rmse")
        print(f"{results}; RMSE forgotten {forgetting or '-'}")


if __name__ == "__main__":
    main()
