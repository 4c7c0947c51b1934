"""What a learner should use when nobody chooses: candidates on short streams, from one command.

    python -m tools.defaults
    python -m tools.defaults --electricity elec.csv

Every candidate learns every stream once, with ten seeds, and is judged by what it predicts on the
way (prequential accuracy) and at the end (accuracy on examples that it never learned). Steps are
those of `recollect stream`: an MLP of 100 and 100 units, memory 500, replays of 32. They are taken
as fleets, in which the outputs for classes that have not come yet are there from the beginning,
and without clipping unless `--clip` is given.
Results are appended to a file as they come, and what is there is not computed again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch
from tools.command import run_command
from tools.default_streams import STREAMS, Examples, electricity
from tools.table_parts import markdown
from torch import Tensor, nn

from recollect import ER, MLP, DERpp, Method
from recollect.experiments.estimate import in_words
from recollect.methods import ERACE
from recollect.nets import Standardise
from recollect.train.devices import one_thread
from recollect.train.fleet import Fleet

__all__ = ["CANDIDATES", "RESULTS", "main", "read", "table"]

RESULTS = Path(__file__).parents[1] / "results" / "single-pass" / "defaults.jsonl"
CANDIDATES: Mapping[str, Method] = {
    "DER++ 0.5, 0.5": DERpp(0.5, 0.5),
    "DER++ 0.5, 1": DERpp(0.5, 1.0),
    "DER++ 1, 1": DERpp(1.0, 1.0),
    "DER++ 0.1, 1": DERpp(0.1, 1.0),
    "ER": ER(),
    "ER-ACE": ERACE(),
    "DER++ 0.5, 0.5, balanced": DERpp(0.5, 0.5, balanced=1),
    "DER++ 0.5, 1, balanced": DERpp(0.5, 1.0, balanced=1),
    "DER++ 1, 1, balanced": DERpp(1.0, 1.0, balanced=1),
    "DER++ 0.1, 1, balanced": DERpp(0.1, 1.0, balanced=1),
    "ER, balanced": ER(balanced=1),
    "ER-ACE, balanced": ERACE(balanced=1),
}
LIMITS = {1: 300}  # examples of a stream at this batch size; others take all
MEMORY, REPLAY, SPARE = 500, 32, 2
KEYS = ("stream", "candidate", "lr", "batch", "seed")

Row = dict[str, Any]
Key = tuple[Any, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Compute what is missing, and print the tables."""
    chosen = _parser().parse_args(arguments)
    streams = dict(STREAMS)
    if chosen.electricity:
        streams["electricity"] = electricity(chosen.electricity)
    if chosen.streams:
        streams = {name: streams[name] for name in chosen.streams}
    results = chosen.results
    if results is None:  # runs with clipping are not those behind the documentation's tables
        results = RESULTS if chosen.clip is None else Path(f"defaults-clip-{chosen.clip:g}.jsonl")
    known = read(results)
    runs = [*product(chosen.rates, range(chosen.seeds))]
    missing = [
        (stream, name, batch, left)
        for batch, stream, name in product(chosen.batches, streams, CANDIDATES)
        # A memory that holds the whole stream is the same, balanced or not.
        if LIMITS.get(batch, sys.maxsize) > MEMORY or not getattr(CANDIDATES[name], "balanced", 0)
        if (left := [(lr, n) for lr, n in runs if (stream, name, lr, batch, n) not in known])
    ]
    began = time.monotonic()
    results.parent.mkdir(parents=True, exist_ok=True)
    with one_thread(), results.open("a") as file:
        for done, (stream, name, batch, left) in enumerate(missing, 1):
            for row in learned(streams[stream], name, batch, left, chosen.clip):
                row = {"stream": stream, **row}
                known[tuple(row[n] for n in KEYS)] = row
                file.write(json.dumps(row) + "\n")
            file.flush()
            if done % 12 == 0 and done < len(missing):
                seconds = (time.monotonic() - began) / done * (len(missing) - done)
                print(f"{done} of {len(missing)} fleets; {in_words(seconds)} left", file=sys.stderr)
    for batch, lr in product(chosen.batches, chosen.rates):
        print(f"\nBatches of {batch}, `lr` {lr:g}\n\n{table(known.values(), lr, batch)}")
    return 0


def table(rows: Iterable[Row], lr: float, batch: int) -> str:
    """A Markdown table: prequential and final accuracy of every candidate on every stream."""
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if (row["lr"], row["batch"]) == (lr, batch):
            cells.setdefault((row["candidate"], row["stream"]), []).append(row)
    streams = [*dict.fromkeys(stream for _, stream in cells)]
    lines = []
    for name in CANDIDATES:
        found = [cells.get((name, stream), []) for stream in streams]
        if found and all(found):
            both = [[fmean(r[what] for r in f) for f in found] for what in ("prequential", "final")]
            said = [f"{_spread(f, 'prequential')} / {_spread(f, 'final')}" for f in found]
            lines.append([name, *said, f"{fmean(both[0]):.1f} / {fmean(both[1]):.1f}"])
    return markdown(["on the way / at the end", *streams, "mean"], lines)


def learned(
    stream: Callable[[int], Examples], name: str, batch: int, runs: Sequence[tuple[float, int]],
    clip: float | None = None,
) -> list[Row]:  # fmt: skip
    """What a fleet of a candidate predicts, in percent: a row for every rate and seed."""
    by_seed = {seed: stream(seed).first(LIMITS.get(batch, sys.maxsize)) for _, seed in runs}
    each = [by_seed[seed] for _, seed in runs]
    labels = sorted({*each[0].y.tolist(), *each[0].test_y.tolist()})
    x, y = _stacked([(one.x, one.y) for one in each], labels)
    test_x, test_y = _stacked([(one.test_x, one.test_y) for one in each], labels)
    size, count = x.shape[-1], y.shape[1]

    def network() -> nn.Module:
        net = MLP(size, len(labels) + SPARE)
        if not each[0].standardised:
            return net
        both = nn.Sequential(Standardise(size), net)
        both.broadcasts_runs = True  # type: ignore[assignment] # as both of them do
        return both

    fleet = Fleet(
        [CANDIDATES[name]] * len(runs), network, seeds=[seed for _, seed in runs],
        lr=[lr for lr, _ in runs], classes=len(labels) + SPARE, shape=(size,), memory=MEMORY,
        replay=REPLAY, numbers=() if clip is None else [{"clip": clip}] * len(runs),
    )  # fmt: skip
    known = torch.zeros(len(runs), 1, len(labels) + SPARE, dtype=torch.bool)
    right = torch.zeros(len(runs))

    def hits(inputs: Tensor, targets: Tensor) -> Tensor:
        scores = fleet.predict(inputs).masked_fill(~known, -torch.inf)
        return ((scores.argmax(-1) == targets) & known.any(-1)).sum(1)

    for start in range(0, count, batch):
        part = slice(start, start + batch)
        right += hits(x[:, part], y[:, part])  # only classes that have come are predicted
        fleet.learn(x[:, part], y[:, part], batch)
        known.scatter_(2, y[:, None, part], True)
    tested = hits(test_x, test_y) / test_y.shape[1]
    return [
        {
            "candidate": name, "lr": lr, "batch": batch, "seed": seed,
            "prequential": round(100 * before / count, 4), "final": round(100 * at_end, 4),
        }
        for (lr, seed), before, at_end in zip(runs, right.tolist(), tested.tolist(), strict=True)
    ]  # fmt: skip


def _stacked(
    parts: Sequence[tuple[np.ndarray, np.ndarray]], labels: Sequence[Any]
) -> tuple[Tensor, Tensor]:
    """Examples `[K, n, F]` and the numbers of their labels `[K, n]`."""
    x = torch.stack([torch.from_numpy(x) for x, _ in parts])
    number = {label: index for index, label in enumerate(labels)}
    return x, torch.tensor([[number[label] for label in y.tolist()] for _, y in parts])


def read(path: Path = RESULTS) -> dict[Key, Row]:
    """The rows of a file, by what they are of; none where there is no file."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {tuple(row[n] for n in KEYS): row for row in rows}


def _spread(rows: Sequence[Row], what: str) -> str:
    values = [row[what] for row in rows]
    return f"{fmean(values):.1f} ±{stdev(values) if len(values) > 1 else 0.0:.1f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.defaults", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    add = parser.add_argument
    add("--electricity", type=Path, metavar="FILE", help="elec.csv, for one more stream")
    add("--streams", nargs="+", metavar="NAME", help="of these streams alone")
    add("--batches", nargs="+", type=int, default=[10, 32, 1], metavar="N")
    add("--rates", nargs="+", type=float, default=[0.03, 0.1], metavar="LR")
    add("--seeds", type=int, default=10)
    add("--clip", type=float, metavar="NORM", help="largest gradient norm (default: no limit)")
    add("--results", type=Path, metavar="FILE", help="default: the runs behind the documentation")
    return parser


if __name__ == "__main__":
    run_command(main)
