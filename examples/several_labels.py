"""Multi-label continual learning: which digits are in a picture, with new digits in each task.

A picture has two handwritten digits side by side; its labels are these digits, one or two. Task 1
has pictures of 0 and 1, task 2 of 2 and 3, and so on; after the last task, all are tested.

    python examples/several_labels.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from recollect import from_arrays, run
from recollect.streams.tasks import TaskStream

TASKS, DIGITS = 5, 10
METHODS: dict[str, Any] = {
    "sgd": {}, "er": {"buffer": 200}, "derpp": {"buffer": 200, "alpha": 0.1, "beta": 1.0},
    "joint": {},
}  # fmt: skip


def pairs(rows: np.ndarray, per_task: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Build pictures `[n, 8, 16]`, their labels `[n, 10]` and tasks, from some of the digits."""
    images, digits = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    x, y, task = [], [], []
    for number in range(TASKS):
        mine = rows[np.isin(digits[rows], (2 * number, 2 * number + 1))]
        both = rng.choice(mine, size=(per_task, 2))
        x.append(images[both].reshape(per_task, 2, 8, 8).transpose(0, 2, 1, 3) / 16)
        y.append(np.eye(DIGITS, dtype=np.int64)[digits[both]].max(1))
        task.append(np.full(per_task, number))
    pictures = np.concatenate(x).reshape(-1, 8, 16).astype(np.float32)
    return pictures, np.concatenate(y), np.concatenate(task)


def stream() -> TaskStream:
    """Build a stream of tasks with two digits each; training and test examples are disjoint."""
    order = np.random.default_rng(0).permutation(1797)
    x, y, task = pairs(order[:1400], per_task=500, seed=1)
    x_test, y_test, task_test = pairs(order[1400:], per_task=200, seed=2)
    return from_arrays(
        x, y, scenario="domain", task_ids=task, test=(x_test, y_test), test_task_ids=task_test,
        target="labels", name="two-digits",
    )  # fmt: skip


def main() -> None:
    """Train SGD, ER, DER++ and JOINT on ten seeds, as fleets, and print F1 and its forgetting."""
    tasks = stream()
    for method, told in METHODS.items():
        results = run(tasks, method, lr=0.1, epochs=5, **told)
        forgetting = results.summaries()[0].mean("forgetting", "f1")
        print(f"{results}; F1 forgotten {forgetting or '-'}")


if __name__ == "__main__":
    main()
