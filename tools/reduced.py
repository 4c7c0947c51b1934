"""Two questions about the paper's authors' code, on a reduced Sequential CIFAR-10, on a CPU.

    python -m tools.reduced icarl     # exemplars in the next task's data, features without a ReLU
    python -m tools.reduced oewc      # Fisher information of one image at a time, in training mode
    python -m tools.reduced fisher    # the size of both estimates during the first task

ResNet-18 of width 16, 1,000 training and 500 test images per class, five epochs per task, bfloat16.
Finished runs are saved in results/reduced, and the same command continues where it was stopped.
`--table` only prints.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

import torch
from tools.collect import runs_in, with_plain_command
from tools.command import run_command
from tools.reduced_fisher import Row, sizes, sizes_table
from tools.reduced_methods import EstimatedOEWC, VariantICaRL
from tools.table_parts import markdown
from torch import Tensor

from recollect import Method, ResNet18, run
from recollect.experiments.estimate import in_words
from recollect.experiments.files import write_runs
from recollect.experiments.results import Mean
from recollect.files import write_text
from recollect.streams import TaskStream, benchmark
from recollect.train import Result

__all__ = ["FOLDER", "VARIANTS", "main", "reduced", "shown", "table"]

Job = TypeVar("Job")

FOLDER = Path(__file__).parents[1] / "results" / "reduced"
FISHER = "fisher"
WIDTH, TRAINED, TESTED, EPOCHS, BATCH = 16, 1000, 500, 5, 32
CHECKED = 100  # images for a Fisher information
MEASURED = (1, 5, 10, 30)  # epochs after which `fisher` measures it

# The rows of a table: their titles, and hyper-parameters beside those of all rows.
VARIANTS: Mapping[str, Mapping[str, Mapping[str, float]]] = {
    "icarl": {
        "merged": {},
        "merged, features without the ReLU": {"without_relu": 1},
        "not merged": {"unmerged": 1},
        "not merged, features without the ReLU": {"unmerged": 1, "without_relu": 1},
    },
    "oewc": {
        "exact": {},
        "one image at a time": {"of_labels": 1},
        "one image at a time, statistics moved": {"of_labels": 1, "moved": 1},
    },
}
METHODS: Mapping[str, type[Method]] = {"icarl": VariantICaRL, "oewc": EstimatedOEWC}
COMMON: Mapping[str, Mapping[str, Any]] = {
    "icarl": {"buffer": 500, "lr": 0.1, "wd": 1e-5, "mbs": BATCH},
    # In a trial with the paper's lambda of 10 and the exact Fisher information, training diverged.
    "oewc": {"lr": 0.03, "lambda_": 1.0, "gamma": 1.0, "images": CHECKED},
}


def reduced(stream: TaskStream) -> TaskStream:
    """Return a stream with the first images of each class only."""

    def some(ids: Tensor, y: Tensor, count: int) -> Tensor:
        labels = sorted(set(y[ids].tolist()))
        return torch.cat([ids[y[ids] == label][:count] for label in labels]).sort().values

    return replace(
        stream,
        name=f"{stream.name}-reduced",
        train_ids=tuple(some(ids, stream.train_y, TRAINED) for ids in stream.train_ids),
        test_ids=tuple(some(ids, stream.test_y, TESTED) for ids in stream.test_ids),
    )


def cifar10() -> TaskStream:
    """Load Sequential CIFAR-10."""
    stream = benchmark("seq-cifar10").stream()
    assert isinstance(stream, TaskStream)
    return stream


def options(stream: TaskStream) -> dict[str, Any]:
    """Return arguments of `recollect.run` that all runs share."""
    network = partial(ResNet18, stream.classes, width=WIDTH)
    return {
        "bs": BATCH, "network": network, "device": "cpu", "precision": "bf16", "workers": 1
    }  # fmt: skip


def train(name: str, values: Mapping[str, float], stream: TaskStream, seed: int) -> Result:
    """Train one run of a row of a table."""
    given: dict[str, Any] = {**options(stream), **COMMON[name], **values}
    (found,) = run(stream, METHODS[name], seeds=[seed], epochs=EPOCHS, **given)
    return with_plain_command(found)


def table(name: str, runs: Iterable[Result]) -> str:
    """Format the table of `icarl` or `oewc`, in Markdown."""
    found, lines = [*runs], []
    for title, values in VARIANTS[name].items():
        if mine := [each for each in found if _is_variant(each, values)]:
            columns = zip(*map(COLUMNS[name], mine), strict=True)
            lines.append([title, str(len(mine)), *(str(Mean.of(each)) for each in columns)])
    return markdown(HEADS[name], lines)


def shown(name: str, folder: Path = FOLDER) -> str:
    """Return the table of a name from the runs in a folder."""
    file = folder / f"{name}.jsonl"
    return sizes_table(read(file)) if name == FISHER else table(name, runs_in(file))


def main(arguments: Sequence[str] | None = None, load: Callable[[], TaskStream] = cifar10) -> int:
    """Train what is missing, one run after the other, and print the table."""
    chosen = _parser().parse_args(arguments)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if not chosen.table:
        file = chosen.folder / f"{chosen.name}.jsonl"
        if chosen.name == FISHER:
            _measure(file, range(chosen.seeds), load)
        else:
            _train(chosen.name, file, range(chosen.seeds), load)
    print(shown(chosen.name, chosen.folder))
    return 0


def _measure(file: Path, seeds: Iterable[int], load: Callable[[], TaskStream]) -> None:
    rows = read(file)
    missing = {*seeds} - {row["seed"] for row in rows}
    for seed in _counted(sorted(missing)):
        stream = reduced(load())
        rate = COMMON["oewc"]["lr"]
        rows += sizes(stream, seed, MEASURED, CHECKED, lr=rate, **options(stream))
        write_text(file, "".join(json.dumps(row) + "\n" for row in rows))


def _train(name: str, file: Path, seeds: Iterable[int], load: Callable[[], TaskStream]) -> None:
    runs = runs_in(file)
    missing = [
        (seed, values)
        for seed, values in product(seeds, VARIANTS[name].values())
        if not any(each.seed == seed and _is_variant(each, values) for each in runs)
    ]
    for seed, values in _counted(missing):
        runs.append(train(name, values, reduced(load()), seed))
        write_runs(file, runs)


def read(path: Path) -> list[Row]:
    """Read the rows of `fisher`; none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _counted(jobs: Sequence[Job]) -> Iterator[Job]:
    """Yield jobs, and say before each but the first how long the rest will take."""
    began = time.monotonic()
    for done, job in enumerate(jobs):
        if done:
            seconds = (time.monotonic() - began) / done * (len(jobs) - done)
            print(f"{done} of {len(jobs)} runs; {in_words(seconds)} left", file=sys.stderr)
        yield job


def _is_variant(run: Result, values: Mapping[str, float]) -> bool:
    flags = {"unmerged", "without_relu", "of_labels", "moved"} & {*run.hyperparameters}
    return all(run.hyperparameters[name] == values.get(name, 0) for name in flags)


def _on_the_way(run: Result) -> list[float]:
    """Class-IL accuracy on the tasks so far, after every task."""
    rows = run.matrix["class"]
    return [fmean(part or 0 for part in row[: n + 1]) for n, row in enumerate(rows)]


def _at_the_end(run: Result) -> list[float]:
    """Class-IL, Task-IL, Task-IL of tasks just learned, and forgetting in Task-IL."""
    learned = fmean(row[n] or 0 for n, row in enumerate(run.matrix["task"]))
    forgotten = run.forgetting["task"]
    assert forgotten is not None
    return [run.accuracy["class"], run.accuracy["task"], learned, forgotten]


COLUMNS: Mapping[str, Callable[[Result], list[float]]] = {
    "icarl": _on_the_way,
    "oewc": _at_the_end,
}
HEADS = {
    "icarl": ["after task", "seeds", "1", "2", "3", "4", "5"],
    "oewc": ["Fisher information", "seeds", "Class-IL", "Task-IL", "Task-IL, just learned",
             "forgetting, Task-IL"],
}  # fmt: skip


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.reduced", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    add = parser.add_argument
    add("name", choices=[*VARIANTS, FISHER])
    add("--seeds", type=int, default=3)
    add("--table", action="store_true", help="print the table of existing runs, without training")
    add("--folder", type=Path, default=FOLDER, metavar="DIR", help="default: results/reduced")
    return parser


if __name__ == "__main__":
    run_command(main)
