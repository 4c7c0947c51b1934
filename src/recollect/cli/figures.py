"""`recollect figures`: draw the paper's figures from stored results."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from recollect.cli.options import add_shared
from recollect.cli.report import stored_runs
from recollect.cli.screen import notice
from recollect.cli.training import check_folder
from recollect.errors import InputError
from recollect.experiments.figures import FIGURES, Material, Recipe, check_matplotlib, recipe, save
from recollect.experiments.values import seeds_from
from recollect.files import check_new, write_json

FORMATS = ("png", "svg", "json")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("names", nargs="*", metavar="NAME",
                        help=f"some of: {', '.join(FIGURES)} (default: all)")  # fmt: skip
    parser.add_argument("--out", type=Path, default=Path("figures"), metavar="DIR",
                        help="output folder (default: figures)")  # fmt: skip
    add_shared(parser, "--from", "--store")
    parser.add_argument("--bench", type=Path, metavar="FILE",
                        help="wall-clock: output of make bench-methods, instead of the times of "
                             "results")  # fmt: skip
    parser.add_argument("--format", dest="formats", nargs="+", choices=FORMATS,
                        default=["png", "svg"], metavar="FORMAT",
                        help="formats: png, svg, json (the data) (default: png svg)")  # fmt: skip
    parser.add_argument("--seeds", default="5", metavar="SEEDS",
                        help="fisher: seeds to train (default: 5)")  # fmt: skip
    add_shared(parser, "--force", "--data-dir")
    parser.set_defaults(command=command)


def command(chosen: argparse.Namespace) -> int:
    """Draw the named figures, or by default all figures that have results."""
    recipes = {name: recipe(name) for name in chosen.names or FIGURES}
    formats = list(dict.fromkeys(chosen.formats))
    seeds = seeds_from(chosen.seeds)
    _check_out(chosen.out)
    for name in recipes if chosen.out.is_dir() else ():
        for form in formats:
            check_new(chosen.out / f"{name}.{form}", chosen.force, "--force")
    check_folder(chosen.data_dir)
    if set(formats) - {"json"}:
        check_matplotlib()
    material = Material(
        results=stored_runs(chosen),
        bench=chosen.bench,
        folder=chosen.data_dir,
        seeds=seeds,
        report=notice,
    )
    made = 0
    for name, each in recipes.items():
        try:
            drawn = each.data(material)
        except InputError as error:
            if chosen.names:
                raise
            notice(f"{name} is skipped: {error}")
            continue
        made += 1
        _write(name, each, drawn, chosen.out, formats)
    return 0 if made else 2


def _write(name: str, made: Recipe, drawn: Any, folder: Path, formats: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    figure = made.draw(drawn) if set(formats) - {"json"} else None
    for form in formats:
        path = folder / f"{name}.{form}"
        if figure is None or form == "json":
            write_json(path, asdict(drawn))
        else:
            save(figure, path)
        print(path)


def _check_out(out: Path) -> None:
    """Raise an error if the output folder is not writable."""
    if out.exists() and not out.is_dir():
        raise InputError(f"cannot write into {str(out)!r}: it is a file; give a folder")
    above = next(each for each in (out, *out.absolute().parents) if each.is_dir())
    if not os.access(above, os.W_OK):
        raise InputError(f"cannot write into {str(out)!r}: no permission in {above}")
