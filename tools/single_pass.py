"""The single-pass tables: every method tuned on a validation split, then trained at every buffer.

    python -m tools.single_pass online-cifar100
    python -m tools.single_pass seq-fashion-mnist --tune-at 500 --buffers 200 500 --mbs 32

Every method is searched at one buffer on the validation split, over the grid below, and the best
values then train at all buffers with all seeds and are scored on the test set. What was chosen is
written to a file of tuned values; a method that has values there is not searched again. With a
store, what was trained is not trained again either.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from recollect import Results, run, search
from recollect.errors import InputError, RecollectError
from recollect.experiments.files import Stored, write_runs
from recollect.experiments.labels import setting_title
from recollect.experiments.plan import Network
from recollect.files import write_json
from recollect.methods import method
from recollect.streams import Stream
from recollect.train import Result

__all__ = ["GRID", "RATES", "TUNED", "rows", "table", "tuned"]

Values = Mapping[str, float]

TUNED = Path(__file__).parents[1] / "results" / "single-pass" / "tuned.json"
BATCH = 10
RATES = (0.01, 0.03, 0.1)
# Besides the rates, for all methods; what is not here has the method's default.
GRID: Mapping[str, Mapping[str, Any]] = {
    "sgd": {},
    "er": {},
    "er-ace": {},
    "der": {"alpha": (0.1, 0.3, 1.0)},
    "derpp": {"alpha": (0.1, 0.3, 1.0), "beta": (0.5, 1.0)},
    "cls-er": {"lambda_": (0.1, 0.3, 1.0)},
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
    """The values of the grid that are best on the validation split at this buffer."""
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
    """The runs of a method with these values at all buffers; of one that has none, once."""
    given: dict[str, Any] = {
        "lambda_" if each == "lambda" else each: v for each, v in values.items()
    }
    sizes = [*buffers] if method(name).replay else None
    return run(
        stream, name, buffer=sizes, seeds=seeds, epochs=1, store=store, network=network,
        **given, **_sizes(name, mbs),
    )  # fmt: skip


def table(runs: Iterable[Result]) -> str:
    """A Markdown table: a row for every method with its values, a column for every buffer."""
    found = Results([*runs]).summaries()
    buffers = sorted({each.first.buffer for each in found if each.first.buffer is not None})
    lines = []
    for setting in dict.fromkeys(name for each in found for name in each.settings):
        heads = ["method", *(f"buffer {size}" for size in buffers), "values"]
        lines += [setting_title(setting), "", _line(heads), _line(["---"] * len(heads))]
        for name in dict.fromkeys(each.first.method for each in found):
            mine = {each.first.buffer: each for each in found if each.first.method == name}
            means = {size: each.mean("accuracy", setting) for size, each in mine.items()}
            # A method without a memory has one result, which stands at every buffer.
            cells = [str(means.get(size) or means.get(None) or "-") for size in buffers]
            first = next(iter(mine.values()))
            shown = {n: v for n, v in first.first.hyperparameters.items() if n not in ("bs", "mbs")}
            said = ", ".join(f"`{n}` {v:g}" for n, v in shown.items())
            lines.append(_line([method(name).title, *cells, said]))
        lines.append("")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Tune what has no tuned values yet, train, and print the tables."""
    chosen = _parser().parse_args(arguments)
    known = json.loads(chosen.tuned.read_text()) if chosen.tuned.exists() else {}
    common: dict[str, Any] = {"mbs": chosen.mbs, "store": chosen.store}
    found: list[Result] = []
    for name in chosen.methods:
        mine = known.setdefault(chosen.benchmark, {})
        try:
            if name not in mine:
                mine[name] = tuned(
                    chosen.benchmark, name, chosen.tune_at, search_seeds=chosen.search_seeds,
                    rates=chosen.rates, **common,
                )  # fmt: skip
                write_json(chosen.tuned, known)
            runs = rows(
                chosen.benchmark, name, chosen.buffers, mine[name], seeds=chosen.seeds, **common
            )
        except InputError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        print(runs, flush=True)
        found += runs
    if chosen.json:
        write_runs(chosen.json, [Stored(each, each.provenance) for each in found])
    print(f"\n{table(found)}" if found else "no runs")
    return 0 if found else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.single_pass", description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)  # fmt: skip
    add = parser.add_argument
    add("benchmark")
    add("--methods", nargs="+", default=[*GRID], choices=[*GRID], metavar="NAME")
    add("--buffers", nargs="+", type=int, default=[500, 1000, 2000], metavar="N")
    add("--tune-at", type=int, default=1000, metavar="N", help="the buffer of the search")
    add("--rates", nargs="+", type=float, default=[*RATES], metavar="LR")
    add("--seeds", type=int, default=3)
    add("--search-seeds", type=int, default=1)
    add("--mbs", type=int, metavar="N", help="replay size (default: the benchmark's)")
    add("--tuned", type=Path, default=TUNED, metavar="FILE", help="the tuned values")
    add("--json", type=Path, metavar="FILE", help="write one object per run")
    add("--store", type=Path, metavar="FILE", help="a result store of its own")
    return parser


def _buffer(name: str, size: int) -> int | None:
    return size if method(name).replay else None


def _sizes(name: str, mbs: int | None) -> dict[str, Any]:
    return {"bs": BATCH} | ({"mbs": mbs} if mbs and method(name).replay else {})


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RecollectError as error:
        sys.exit(str(error))
