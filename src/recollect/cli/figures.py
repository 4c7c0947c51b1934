"""`recollect figures`: the paper's figures, from results that are there."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from recollect.cli.common import add_data_dir, add_files, check_folder
from recollect.cli.notices import notice
from recollect.errors import InputError
from recollect.experiments.figures import FIGURES, Material, check_matplotlib, recipe, save
from recollect.experiments.files import read_json
from recollect.experiments.store import Store
from recollect.experiments.values import seeds_from
from recollect.files import write_json
from recollect.train import Result

__all__ = ["configure"]

FORMATS = ("png", "svg", "json")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help=f"some of: {', '.join(FIGURES)} (default: all)")  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("figures"), metavar="DIR",
                        help="where they go (default: figures)")  # fmt: skip
    add_files(parser)
    parser.add_argument("--bench", type=Path, metavar="FILE",
                        help="wall-clock: what make bench-methods printed, instead of the times "
                             "of results")  # fmt: skip
    parser.add_argument("--format", dest="formats", nargs="+", choices=FORMATS,
                        default=["png", "svg"], metavar="FORMAT",
                        help="some of: png, svg, json (the data) (default: png svg)")  # fmt: skip
    parser.add_argument("--seeds", default="5", metavar="SEEDS",
                        help="fisher: the seeds to train (default: 5)")  # fmt: skip
    add_data_dir(parser)
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Make the figures that were asked for; of all, those that there are results for."""
    names = list(dict.fromkeys(chosen.names)) or list(FIGURES)
    for name in names:
        recipe(name)
    formats = list(dict.fromkeys(chosen.formats))
    seeds = seeds_from(chosen.seeds)
    _check_out(chosen.out)
    check_folder(chosen.data_dir)
    if set(formats) - {"json"}:
        check_matplotlib()
    material = Material(
        results=_results(chosen.files, chosen.store),
        bench=chosen.bench,
        folder=chosen.data_dir,
        seeds=seeds,
        report=notice,
    )
    made = 0
    for name in names:
        try:
            drawn = recipe(name).data(material)
        except InputError as error:
            if chosen.names:
                raise
            notice(f"{name} is left out: {error}")
            continue
        made += 1
        _write(name, drawn, chosen.out, formats)
    return 0 if made else 2


def _write(name: str, drawn: object, folder: Path, formats: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    figure = recipe(name).draw(drawn) if set(formats) - {"json"} else None
    for form in formats:
        path = folder / f"{name}.{form}"
        if figure is None or form == "json":
            write_json(path, asdict(drawn))  # type: ignore[call-overload]
        else:
            save(figure, path)
        print(path)


def _results(files: Sequence[Path] | None, store: Path | None) -> list[Result]:
    """What is in the files; without files, or if a store is named, what is in the store."""
    found = [run for path in files or () for run, _ in read_json(path, notice)]
    if store is not None and not store.is_file():
        raise InputError(f"there is no result store {str(store)!r}: correct --store")
    if store is not None or not files:
        found += [row.result for row in Store(store).rows(validation=False)]
    return found


def _check_out(out: Path) -> None:
    """Refuse a folder that cannot be written to, before any work is done."""
    if out.exists() and not out.is_dir():
        raise InputError(f"cannot write into {str(out)!r}: it is a file; give a folder")
    above = next(each for each in (out, *out.absolute().parents) if each.is_dir())
    if not os.access(above, os.W_OK):
        raise InputError(f"cannot write into {str(out)!r}: no permission in {above}")
