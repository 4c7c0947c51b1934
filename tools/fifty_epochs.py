"""ER-ACE and X-DER with 50 epochs a task beside their published figures: needs a GPU.

    python -m tools.fifty_epochs
    python -m tools.fifty_epochs --benchmarks seq-cifar100 --methods x-der

ResNet-18, buffer 500, batches and replays of 32, one seed. Saves as it goes: a run that is stopped
continues from its last state, and one that is finished is not trained again.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.collect import runs_in, with_plain_command
from tools.command import run_command
from tools.single_pass import FOLDER
from tools.single_pass_time import Asked, say_how_long
from tools.table_parts import markdown

from recollect import run
from recollect.experiments.files import write_runs
from recollect.methods import method
from recollect.train import Result

__all__ = ["PUBLISHED", "main", "table"]

BUFFER = 500
# What is not here has the method's default, which for X-DER is Mammoth's for CIFAR-100.
VALUES: Mapping[str, Mapping[str, float]] = {"er-ace": {"lr": 0.03}, "x-der": {"lr": 0.03}}
# Class-IL with a buffer of 500. ER-ACE: notes on MOCA; X-DER: aimagelab/mammoth, issue 21.
PUBLISHED = {
    ("seq-cifar100", "er-ace"): 43.12,
    ("seq-cifar100", "x-der"): 49.93,
    ("seq-cifar10", "er-ace"): 71.98,
}


def table(runs: Sequence[Result]) -> str:
    """A Markdown table: Class-IL and Task-IL of every run, and the published figure."""
    lines = []
    for each in runs:
        published = PUBLISHED.get((each.benchmark, each.method))
        lines.append([
            each.benchmark, method(each.method).title, str(each.epochs),
            *(f"{each.accuracy[setting]:.2f}" for setting in ("class", "task")),
            "-" if published is None else f"{published:.2f}",
        ])  # fmt: skip
    head = ["benchmark", "method", "epochs", "Class-IL", "Task-IL", "published, Class-IL"]
    return markdown(head, lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Train what is missing, one run after the other, and print the table."""
    chosen = _parser().parse_args(arguments)
    file = chosen.folder / "fifty-epochs.jsonl"
    wanted = [(n, each, chosen.epochs) for n in chosen.benchmarks for each in chosen.methods]
    found = {(run.benchmark, run.method, run.epochs): run for run in runs_in(file)}
    missing = [key for key in wanted if key not in found]
    chosen.folder.mkdir(parents=True, exist_ok=True)
    for name in dict.fromkeys(name for name, *_ in missing):
        left = [Asked(m, BUFFER, VALUES[m], 1, epochs) for n, m, epochs in missing if n == name]
        say_how_long(name, left)
    for name, kind, epochs in missing:
        values: dict[str, Any] = {**VALUES[kind]}
        results = run(
            name, kind, buffer=BUFFER, seeds=1, epochs=epochs,
            checkpoint=chosen.folder / "unfinished", **values,
        )  # fmt: skip
        print(results, flush=True)
        found[name, kind, epochs] = with_plain_command(results[0])
        write_runs(file, found.values())
    print(f"\n{table([found[key] for key in wanted])}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.fifty_epochs", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    add = parser.add_argument
    names = ["seq-cifar100", "seq-cifar10"]
    add("--benchmarks", nargs="+", default=names, metavar="NAME")
    add("--methods", nargs="+", default=[*VALUES], choices=[*VALUES], metavar="NAME")
    add("--epochs", type=int, default=50, metavar="N")
    add("--folder", type=Path, default=FOLDER, metavar="DIR",
        help="where all is saved (default: results/single-pass)")  # fmt: skip
    return parser


if __name__ == "__main__":
    run_command(main)
