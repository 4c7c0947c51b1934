"""Drift alarms of learners: detection delay after abrupt changes, and false alarms.

`python -m benchmarks.drift` trains small learners on streams with and without known changes, and
passes the outcomes of their predictions to each of River's detectors. `--seeds 3 4` selects other
seeds. It needs the extras `river` and `digits`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from recollect import ER, MLP, SGD, DERpp, Learner, Method
from recollect.learner.monitoring.drift import Detector, Drift
from recollect.methods import method

BATCH, SEGMENT, SEGMENTS, CALM, WITHIN = 25, 2_000, 6, 20_000, 500
CHANGES = ("labels", "features", "domain")
METHODS: dict[str, Method] = {
    "derpp": DERpp(alpha=0.1, beta=0.5), "er": ER(), "sgd": SGD(), "slda": method("slda")(),
}  # fmt: skip
DETECTORS = ("ADWIN", "DDM", "HDDMA", "HDDMW", "PageHinkley")


@dataclass(frozen=True)
class Outcomes:
    """Labels and predictions (-1: none) of a learner, and the positions of changes."""

    name: str
    labels: np.ndarray
    guesses: np.ndarray
    changes: tuple[int, ...]

    @property
    def wrong(self) -> np.ndarray:
        """True for each wrong prediction."""
        found: np.ndarray = self.labels != self.guesses
        return found


class Source:
    """Examples of some classes in a number of domains; 'digits' are images, 'blobs' overlap."""

    def __init__(self, name: str, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.name, self.classes, self.features = name, 10 if name == "digits" else 5, 64
        if name == "digits":
            from sklearn.datasets import load_digits

            found = load_digits()
            self.x, self.y = (found.data / 16).astype(np.float32), found.target
        else:
            self.features = 20
            self.centres = self.rng.normal(size=(SEGMENTS, self.classes, self.features))

    def batch(self, domain: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a batch `[n, features]` of the first `classes` classes, and its labels `[n]`."""
        if self.name == "digits":
            rows = self.rng.choice(np.flatnonzero(self.y < classes), BATCH)
            x = np.rot90(self.x[rows].reshape(-1, 8, 8), domain, (1, 2)).reshape(BATCH, -1)
            y = self.y[rows]
            scale = 0.2
        else:
            y = self.rng.integers(0, classes, BATCH)
            x, scale = self.centres[domain, y], 1.2
        return (x + scale * self.rng.normal(size=x.shape)).astype(np.float32), y


def stream(source: Source, change: str, length: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield batches with a change after each segment: 'none', new 'classes', or a new domain."""
    rng = np.random.default_rng(1)
    labels, columns, domain, classes = np.arange(source.classes), np.arange(source.features), 0, 0
    for at in range(0, length, BATCH):
        if at and at % SEGMENT == 0:
            if change == "labels":
                labels = np.roll(labels, int(rng.integers(1, source.classes)))
            elif change == "features":
                columns = rng.permutation(source.features)
            elif change == "domain":
                domain += 1
        classes = min(2 + at // SEGMENT, source.classes) if change == "classes" else source.classes
        x, y = source.batch(domain, classes)
        yield x[:, columns], labels[y]


def outcomes(source: str, change: str, kind: str, seed: int, lr: float = 0.1) -> Outcomes:
    """Return the predictions of a learner for a stream, each made before learning from it."""
    torch.manual_seed(seed)
    data, calm = Source(source, seed), change in ("none", "classes")
    length = CALM if calm else SEGMENT * SEGMENTS
    learner = Learner(MLP(data.features, 1, (50,)), METHODS[kind], lr=lr, seed=seed)
    labels, found = list[int](), list[int]()
    for x, y in stream(data, change, length):
        guesses: list[Any] = learner.predict(x) if learner.steps else [None] * len(y)
        learner.observe(x, y, predicted=guesses)
        labels += y.tolist()
        found += [-1 if guess is None else guess for guess in guesses]
    name = f"{source} {change} {kind} {seed} {lr:g}"
    changes = () if calm else tuple(range(SEGMENT, length, SEGMENT))
    return Outcomes(name, np.array(labels), np.array(found), changes)


def alarms(detector: Detector, found: Outcomes) -> list[int]:
    """Return the examples at which a detector raises an alarm."""
    drift, met, at = Drift(detector), np.zeros(found.labels.max() + 1, int), list[int]()
    for start in range(0, len(found.labels), BATCH):
        rows = slice(start, start + BATCH)
        before, labels = drift.alarms, found.labels[rows]
        drift = drift.after(labels, found.guesses[rows], met, start)
        met += np.bincount(labels, minlength=len(met))
        at += [alarm.number for alarm in drift.last[before - drift.alarms or len(drift.last) :]]
    return at


@dataclass
class Score:
    """Counts of changes, detected changes, false alarms and examples without change; delays."""

    changes: int = 0
    visible: int = 0
    found: int = 0
    found_visible: int = 0
    false: int = 0
    calm: int = 0

    def add(self, outcomes: Outcomes, raised: Sequence[int], delays: list[int]) -> None:
        """Add one stream; an alarm up to the end of a segment is attributed to its change."""
        self.calm += len(outcomes.wrong) if not outcomes.changes else 0
        used = 0
        for change in outcomes.changes:
            wrong = outcomes.wrong
            before, after = wrong[change - WITHIN : change], wrong[change : change + WITHIN]
            visible = bool(after.mean() - before.mean() >= 0.1)
            later = [at for at in raised if change <= at < change + WITHIN]
            used += len(later)
            self.changes, self.visible = self.changes + 1, self.visible + visible
            self.found += bool(later)
            self.found_visible += bool(later) and visible
            delays += [later[0] - change] if later else []
        self.false += len(raised) - used


def report(name: str, all_of: Sequence[Outcomes], detector: Detector) -> None:
    """Print the table row of a detector."""
    score, delays = Score(), list[int]()
    for each in all_of:
        score.add(each, alarms(detector, each), delays)
    share = f"{score.found}/{score.changes} ({score.found_visible}/{score.visible} visible)"
    middle = f"{np.median(delays):.0f}" if delays else "-"
    total = sum(len(each.wrong) for each in all_of)
    print(f"| {name} | {share} | {middle} | {score.false} in {total:,} |", flush=True)


def main() -> None:
    """Train the learners, and print a table of detectors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--save", metavar="FILE", help="where outcomes are stored as .npz")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    seeds = chosen.seeds
    cases = [
        *((s, c, m, n, 0.1) for s in ("digits", "blobs") for c in CHANGES
          for m in METHODS for n in seeds),
        *((s, c, m, n, 0.1) for s in ("digits", "blobs") for c in ("none", "classes")
          for m in METHODS for n in seeds),
        *((s, "none", "derpp", n, 0.01) for s in ("digits", "blobs") for n in seeds),
    ]  # fmt: skip
    all_of = []
    for case in cases:
        all_of.append(outcomes(*case))
        each = all_of[-1]
        print(each.name, each.wrong[-1000:].mean(), flush=True)
    if chosen.save:
        saved: dict[str, Any] = {e.name: np.stack([e.labels, e.guesses]) for e in all_of}
        np.savez(chosen.save, **saved)
    groups = {
        "abrupt changes": [e for e in all_of if e.changes],
        "no change": [e for e in all_of if " none " in e.name],
        "new classes": [e for e in all_of if " classes " in e.name],
    }
    for group, members in groups.items():
        print(f"\n{group}\n\n| detector | alarms within {WITHIN} | median | false alarms |")
        for name in DETECTORS:
            report(name, members, Detector.of(name))


if __name__ == "__main__":
    main()
