"""Learn the condition of a machine with changing operating modes from a CSV of sensor readings.

    python examples/sensors.py
    python examples/sensors.py --stop-after 2000    # run again without the option to continue

The first run creates `machine.csv`. Each mode has its own normal readings, modes recur, and new
faults appear over time. The condition is predicted for each batch before learning from it. Every
fifth reading is held out, to measure at the end what is still known of each mode.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from recollect import MLP, SGD, DERpp, Learner, Method

# Range of each sensor, from its data sheet, to scale readings to values around 0.
RANGES = {
    "speed": (0, 3000), "load": (0, 100), "temperature": (20, 120), "vibration": (0, 20),
    "pressure": (0, 10), "current": (0, 40),
}  # fmt: skip
# The machine cycles through its modes, and new faults appear over time.
MODES = ["roughing", "finishing", "drilling", "threading"]
CONDITIONS = ["normal", "worn bearing", "leak", "blunt tool", "overheating"]
ROUNDS = 8
BATCH = 10


def make_csv(path: Path, rows: int) -> None:
    """Write `rows` readings of each mode in each round; faults look different in each mode."""
    rng = np.random.default_rng(7)
    usual = {mode: rng.uniform(0.2, 0.8, len(RANGES)) for mode in MODES}
    signs = {
        (mode, condition): rng.normal(0, 0.12, len(RANGES)) * (condition != "normal")
        for mode in MODES
        for condition in CONDITIONS
    }
    low, high = np.array(list(RANGES.values()), dtype=float).T
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["mode", *RANGES, "condition"])
        for shift in range(ROUNDS * len(MODES)):
            mode, faults = MODES[shift % len(MODES)], 1 + shift // (2 * len(MODES))
            for _ in range(rows):
                condition = CONDITIONS[rng.integers(1 + faults)]
                level = usual[mode] + signs[mode, condition] + rng.normal(0, 0.04, len(RANGES))
                values = low + np.clip(level, 0, 1) * (high - low)
                writer.writerow([mode, *(f"{value:.2f}" for value in values), condition])


def read_csv(path: Path) -> tuple[list[str], np.ndarray, list[str]]:
    """Read the modes, the readings scaled to -3..3, and the conditions."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    low, high = np.array(list(RANGES.values()), dtype=float).T
    readings = np.array([[float(row[name]) for name in RANGES] for row in rows])
    scaled = (6 * (readings - low) / (high - low) - 3).astype(np.float32)
    return [row["mode"] for row in rows], scaled, [row["condition"] for row in rows]


def follow(x: np.ndarray, y: list[str], method: Method, folder: Path, stop: int | None) -> Learner:
    """Learn from all readings, or continue where an earlier run of this script stopped."""
    torch.manual_seed(0)
    network = MLP(len(RANGES), 1, hidden=(64,))
    learner = Learner.resume(folder, network, checkpoint_every=100)
    if learner is None:
        learner = Learner(
            network, method, memory=500, lr=0.1, checkpoints=folder, checkpoint_every=100
        )
    else:
        print(f"{method.title} goes on after {learner.seen} readings")
    for start in range(learner.seen, min(len(y), stop or len(y)), BATCH):
        learner.observe(x[start : start + BATCH], y[start : start + BATCH])
    learner.checkpoint()
    return learner


def majority(y: list[str]) -> float:
    """Accuracy of always predicting the most frequent condition so far."""
    met: Counter[str] = Counter()
    right = 0
    for condition in y:
        right += bool(met) and met.most_common(1)[0][0] == condition
        met[condition] += 1
    return right / len(y)


def main(folder: Path, rows: int = 200, stop: int | None = None) -> dict[str, Learner]:
    """Learn with DER++ and with plain SGD, and print their accuracy."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "machine.csv"
    if not path.exists():
        make_csv(path, rows)
    modes, x, y = read_csv(path)
    kept = np.arange(len(y)) % 5 > 0
    stream, labels = x[kept], [label for label, used in zip(y, kept, strict=True) if used]
    learners = {
        method.title: follow(stream, labels, method, folder / method.name, stop)
        for method in (DERpp(alpha=0.1, beta=0.5), SGD())
    }
    met = labels[: max(learner.seen for learner in learners.values())]
    print(f"\npredicted before it was learned, {len(met)} readings")
    for title, learner in learners.items():
        print(f"  {title:10} {learner.metrics()}")
    print(f"  {'majority':10} accuracy {100 * majority(met):.2f} %")
    print(f"\nstill known at the end {''.join(f'{title:>9}' for title in learners)}")
    for mode in MODES:
        held = [n for n, each in enumerate(modes) if each == mode and not kept[n]]
        shares = [
            np.mean([told == y[n] for n, told in zip(held, each.predict(x[held]), strict=True)])
            for each in learners.values()
        ]
        print(f"  {mode:20} {''.join(f'{100 * share:7.1f} %' for share in shares)}")
    return learners


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("machine"))
    parser.add_argument("--stop-after", type=int, default=None, help="so many readings")
    given = parser.parse_args()
    main(given.folder, stop=given.stop_after)
