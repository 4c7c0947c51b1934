"""Add runs to the folder results/, each to the file that the manifest assigns to it.

    python -m tools.collect              # print the commands whose runs are incomplete
    python -m tools.collect FILE ...     # add runs that --json wrote; existing runs are replaced

A run is refused if it was made by another commit than the manifest states for its command, if the
existing run is newer, or if its accuracy does not match its accuracy matrix. The same runs give the
same files, in whatever order they are added.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tools.manifest import FOLDER, MANIFEST, Line, asked, read

from recollect.errors import InputError, RecollectError
from recollect.experiments.files import read_json, write_runs
from recollect.train import Result

__all__ = ["collect", "missing", "runs_in", "with_plain_command"]

# Options for locations and parallelism, which do not change results.
ROUNDED = 0.001
PLACES = {
    "--checkpoints",
    "--data-dir",
    "--folder",
    "--json",
    "--store",
    "--tensorboard",
    "--workers",
}


def collect(sources: Sequence[Path], folder: Path = FOLDER, manifest: Path = MANIFEST) -> list[str]:
    """Add the runs of some files to the folder, and return a line for each changed file.

    Runs in the changed files that no command of the manifest makes any more are removed.
    """
    lines = read(manifest)
    goes_to = {
        key: (line.file, number)
        for number, line in reversed([*enumerate(lines)])
        for key in line.run_keys()
    }
    added: dict[str, list[Result]] = {}
    for source in sources:
        for run in read_json(source):
            what = (
                f"{run.benchmark} {run.method}, buffer {run.buffer}, seed {run.seed}, "
                f"{run.hyperparameters}"
            )
            key = asked(run.identity)
            if key not in goes_to:
                raise InputError(f"{source}: no command of {manifest} makes this run: {what}")
            file, number = goes_to[key]
            if fault := _fault(run, lines[number].commit):
                raise InputError(f"{source}: {what}: {fault}")
            added.setdefault(file, []).append(with_plain_command(run))
    there = {file: {asked(run.identity): run for run in runs_in(folder / file)} for file in added}
    for file, runs in added.items():
        for run in runs:
            before, made = there[file].get(asked(run.identity)), run.provenance
            if before and before.provenance.created > made.created:
                raise InputError(
                    f"the run of {run.method} with seed {run.seed} in {file} is newer "
                    f"({before.provenance.created}) than the one that would replace it "
                    f"({made.created})"
                )
    said = []
    for file, runs in sorted(added.items()):
        path, old = folder / file, there[file]
        # Runs that no command makes any more, such as those with values that were repaired.
        stale = {key for key in old if goes_to.get(key, ("", 0))[0] != file}
        kept = {key: run for key, run in old.items() if key not in stale}
        kept |= {asked(run.identity): run for run in runs}
        order = sorted(kept, key=lambda key: (goes_to[key][1], *_order(kept[key])))
        write_runs(path, (kept[key] for key in order))
        new = len(kept.keys() - old.keys())
        said.append(
            f"{path}: {new} runs added, {len(runs) - new} replaced, {len(stale)} removed, "
            f"{len(kept)} in all"
        )
    return said


def missing(folder: Path = FOLDER, manifest: Path = MANIFEST) -> list[tuple[Line, int, int]]:
    """Return the commands with missing runs, the number missing and the total number.

    The data of a figure count as one run.
    """
    found = []
    for line in read(manifest):
        there = (
            {asked(run.identity) for run in runs_in(folder / line.file)} if line.makes_runs else ()
        )
        wanted = line.run_keys() if line.makes_runs else [line.file]
        left = [key for key in wanted if key not in there]
        if not line.makes_runs and (folder / line.file).exists():
            left = []
        if left:
            found.append((line, len(left), len(wanted)))
    return found


def runs_in(path: Path) -> list[Result]:
    """Read the runs of a file; none if there is no file."""
    return read_json(path) if path.exists() else []


def plain(command: str) -> str:
    """Remove options for locations and parallelism from a command.

    >>> plain("recollect run seq-mnist er --store /tmp/a.sqlite --seeds 3")
    'recollect run seq-mnist er --seeds 3'
    """
    kept: list[str] = []
    skipping = False
    for word in shlex.split(command):
        if word.startswith("--"):
            skipping = word.partition("=")[0] in PLACES
        if not skipping:
            kept.append(word)
    return shlex.join(kept)


def with_plain_command(run: Result) -> Result:
    """Remove options for locations and parallelism from the command that made a run."""
    made = run.provenance
    return replace(run, provenance=replace(made, command=plain(made.command)))


def _fault(run: Result, commit: str) -> str:
    """Return why a run is refused; empty if it is valid."""
    made = run.provenance
    if not made.command:
        return "it has no command in its provenance"
    if made.commit != commit:
        return f"commit {made.commit or 'unknown'} made it, and the manifest names {commit}"
    for setting, accuracy in run.accuracy.items():
        last = [value for value in run.matrix[setting][-1] if value is not None]
        if abs(accuracy - sum(last) / len(last)) > ROUNDED:
            return f"its accuracy in {setting} is not the mean of its matrix's last row"
    return ""


def _order(run: Result) -> tuple[object, ...]:
    return run.buffer or 0, sorted(run.hyperparameters.items()), run.seed


def main() -> int:
    """Add the named files, or print what is missing."""
    try:
        if {"-h", "--help"} & {*sys.argv[1:]}:
            print(__doc__)
            return 0
        if len(sys.argv) > 1:
            print("\n".join(collect([Path(name) for name in sys.argv[1:]])))
            return 0
        for line, left, wanted in missing():
            remark = "" if left == wanted else f"    # {wanted - left} of {wanted} are there"
            print(f"{line.command}{remark}")
    except RecollectError as error:
        print(f"tools.collect: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
