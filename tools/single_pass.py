"""Make the single-pass tables: tune each method on a validation split, then train at each buffer.

    python -m tools.single_pass online-cifar100
    python -m tools.single_pass seq-fashion-mnist --tune-at 500 --buffers 200 500 --mbs 32
    python -m tools.single_pass online-cifar100 --methods er --folder er    # several side by side
    python -m tools.single_pass online-cifar100 --add er derpp --table      # and then together

Each method is tuned at one buffer on the validation split, over the grid below. The best values
then train at all buffers with all seeds, and are evaluated on the test set. Everything is saved
during training, so the same command continues where it was stopped: tuned values in `tuned.json`,
the runs of the tables in `BENCHMARK.jsonl`, and all trained fleets in `store.sqlite`, which is not
under version control. Remove a method from `tuned.json` to tune it again; runs with other values
than those in the file are replaced. `--table` only prints. A folder is for one command at a time.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tools.collect import runs_in, with_plain_command
from tools.command import run_command
from tools.single_pass_time import Asked, say_how_long
from tools.table_parts import markdown

from recollect import Results, run, search
from recollect.errors import InputError
from recollect.experiments.files import write_runs
from recollect.experiments.labels import setting_title
from recollect.experiments.networks import Network
from recollect.files import write_json
from recollect.methods import method, omitted_defaults, symbol
from recollect.streams import Stream
from recollect.train import Result

__all__ = ["FOLDER", "GRID", "RATES", "rows", "table", "tuned"]

Values = Mapping[str, float]

FOLDER = Path(__file__).parents[1] / "results" / "single-pass"
BATCH = 10
RATES = (0.01, 0.03, 0.1)
# Grids of the methods in addition to the learning rates; others use the method's defaults.
GRID: Mapping[str, Mapping[str, Any]] = {
    "sgd": {},
    "er": {},
    "er-ace": {},
    "der": {"alpha": (0.1, 0.3, 1.0)},
    "derpp": {"alpha": (0.1, 0.3, 1.0), "beta": (0.5, 1.0)},
    "cls-er": {"lambda_": (0.1, 1.0), "stable_decay": (0.95, 0.99, 0.999)},
    "x-der": {},
    "scr": {},
    "star": {"around": (2,), "gamma": (0.01, 0.05)},  # around ER-ACE
}


def tuned(
    stream: str | Stream,
    name: str,
    buffer: int,
    *,
    rates: Sequence[float] = RATES,
    mbs: int | None = None,
    search_seeds: int = 1,
    store: Path | None = None,
    network: Network | None = None,
) -> dict[str, float]:
    """Return the values of the grid that are best on the validation split at this buffer."""
    found = search(
        stream, name, buffer=_buffer(name, buffer), seeds=1, search_seeds=search_seeds, epochs=1,
        store=store, network=network, lr=rates, **GRID[name], **_sizes(name, mbs),
    )  # fmt: skip
    return {each: value for each, value in found.best.items() if each not in ("bs", "mbs")}


def rows(
    stream: str | Stream,
    name: str,
    buffers: Sequence[int],
    values: Values,
    *,
    seeds: int = 3,
    mbs: int | None = None,
    store: Path | None = None,
    network: Network | None = None,
) -> Results:
    """Train a method with these values at all buffers, or once if it has no buffer."""
    given: dict[str, Any] = {
        "lambda_" if each == "lambda" else each: v for each, v in values.items()
    }
    sizes = [*buffers] if method(name).replay else None
    return run(
        stream, name, buffer=sizes, seeds=seeds, epochs=1, store=store, network=network,
        **given, **_sizes(name, mbs),
    )  # fmt: skip


def table(runs: Iterable[Result], setting: str) -> str:
    """Format a Markdown table with one row per method and one column per buffer."""
    found = Results([*runs]).summaries()
    buffers = sorted({each.first.buffer for each in found if each.first.buffer is not None})
    lines = []
    for name in dict.fromkeys(each.first.method for each in found):
        mine = {each.first.buffer: each for each in found if each.first.method == name}
        means = {size: each.mean("accuracy", setting) for size, each in mine.items()}
        # A method without a memory has one result, which is repeated for every buffer.
        cells = [str(means.get(size) or means.get(None) or "-") for size in buffers]
        searched = ["lr", *(symbol(each) for each in GRID[name])]
        values = next(iter(mine.values())).first.hyperparameters
        said = ", ".join(f"`{n}` {v:g}" for n, v in values.items() if n in searched)
        lines.append([method(name).title, *cells, said])
    return markdown(["method", *(f"buffer {size}" for size in buffers), "values"], lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Tune methods without tuned values, train missing runs, and print the tables."""
    chosen = _parser().parse_args(arguments)
    file, tuned_file = chosen.folder / f"{chosen.benchmark}.jsonl", chosen.folder / "tuned.json"
    values = json.loads(tuned_file.read_text()) if tuned_file.exists() else {}
    mine = values.setdefault(chosen.benchmark, {})
    there = runs_in(file)
    for folder in chosen.add:
        mine.update(json.loads((folder / "tuned.json").read_text()).get(chosen.benchmark, {}))
        there = _merged(there, runs_in(folder / file.name))
    if chosen.add:
        write_json(tuned_file, values)
        write_runs(file, there)
    missing = [name for name in chosen.methods if not _complete(name, mine, there, chosen)]
    if missing and not chosen.table:
        chosen.folder.mkdir(parents=True, exist_ok=True)
        say_how_long(
            chosen.benchmark, [job for name in missing for job in _asked(name, mine, chosen)]
        )
    for name in [] if chosen.table else missing:
        common: dict[str, Any] = {"mbs": chosen.mbs, "store": chosen.folder / "store.sqlite"}
        try:
            if name not in mine:
                mine[name] = tuned(
                    chosen.benchmark, name, chosen.tune_at, search_seeds=chosen.search_seeds,
                    rates=chosen.rates, **common,
                )  # fmt: skip
                write_json(tuned_file, values)
            runs = rows(
                chosen.benchmark, name, chosen.buffers, mine[name], seeds=chosen.seeds, **common
            )
        except InputError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        print(runs, flush=True)
        there = _merged(there, runs)
        write_runs(file, there)
    found = [
        each
        for name in chosen.methods
        for each in there
        if name in mine and _fits(each, name, mine[name], chosen)
    ]
    for setting in dict.fromkeys(name for each in found for name in each.accuracy):
        print(f"\n{setting_title(setting)}\n\n{table(found, setting)}")
    if not found:
        print("no runs")
    return 0 if found else 1


def _asked(name: str, mine: Mapping[str, Values], chosen: argparse.Namespace) -> list[Asked]:
    """What is left to train of a method: its search, and its runs at every buffer."""
    sizes = _sizes(name, chosen.mbs)
    grid = {"lr": chosen.rates, **GRID[name], **sizes}
    one = {each: np.ravel(value)[0] for each, value in grid.items()}
    search = [Asked(name, _buffer(name, chosen.tune_at), grid, chosen.search_seeds)]
    buffers = chosen.buffers if method(name).replay else [None]
    return (search if name not in mine else []) + [
        Asked(name, size, {**one, **mine.get(name, {})}, chosen.seeds) for size in buffers
    ]


def _complete(
    name: str, mine: Mapping[str, Values], there: Iterable[Result], chosen: argparse.Namespace
) -> bool:
    """Whether all runs of the table of a method are there, with its tuned values."""
    buffers = chosen.buffers if method(name).replay else [None]
    wanted = {(size, seed) for size in buffers for seed in range(chosen.seeds)}
    fit = [each for each in there if name in mine and _fits(each, name, mine[name], chosen)]
    return wanted <= {(each.buffer, each.seed) for each in fit}


def _fits(each: Result, name: str, values: Values, chosen: argparse.Namespace) -> bool:
    """Whether a run belongs to the table of these options."""
    expected = {**values, **_sizes(name, chosen.mbs)}
    had = {**omitted_defaults(method(name)), **each.hyperparameters}
    return (
        each.method == name
        and (each.buffer is None or each.buffer in chosen.buffers)
        and each.seed < chosen.seeds
        and all(had.get(key) == value for key, value in expected.items())
    )


def _merged(there: Iterable[Result], runs: Iterable[Result]) -> list[Result]:
    """The runs so far, without older ones of the same method, buffer and seed, and the new ones."""
    new = [with_plain_command(each) for each in runs]
    keys = {(each.method, each.buffer, each.seed) for each in new}
    kept = [each for each in there if (each.method, each.buffer, each.seed) not in keys]
    order = [*GRID]
    return sorted([*kept, *new], key=lambda each: order.index(each.method))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.single_pass", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    add = parser.add_argument
    add("benchmark")
    add("--methods", nargs="+", default=[*GRID], choices=[*GRID], metavar="NAME")
    add("--buffers", nargs="+", type=int, default=[500, 1000, 2000], metavar="N")
    add("--tune-at", type=int, default=1000, metavar="N", help="buffer size for tuning")
    add("--rates", nargs="+", type=float, default=[*RATES], metavar="LR")
    add("--seeds", type=int, default=3)
    add("--search-seeds", type=int, default=1)
    add("--mbs", type=int, metavar="N", help="replay size (default: the benchmark's)")
    add("--add", nargs="+", type=Path, default=[], metavar="DIR",
        help="add the tuned values and runs of these folders first")  # fmt: skip
    add("--table", action="store_true", help="print the tables of existing runs, without training")
    add(
        "--folder",
        type=Path,
        default=FOLDER,
        metavar="DIR",
        help="folder of all files (default: results/single-pass)",
    )
    return parser


def _buffer(name: str, size: int) -> int | None:
    return size if method(name).replay else None


def _sizes(name: str, mbs: int | None) -> dict[str, Any]:
    return {"bs": BATCH} | ({"mbs": mbs} if mbs and method(name).replay else {})


if __name__ == "__main__":
    run_command(main)
