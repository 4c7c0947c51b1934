"""The versions in a folder of checkpoints: their order, rollbacks and pins."""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

from recollect.files import write_bytes

SUFFIX = ".recollect"
FILE = "versions.json"
NAME = re.compile(rf"(\d{{1,18}})(?:-(\d{{1,9}}))?{re.escape(SUFFIX)}")

_log = logging.getLogger("recollect.learner")


@final
@dataclass(frozen=True)
class Version:
    """A checkpoint: its file, and the number of examples seen.

    A `pinned` version is never deleted. A version is `abandoned` if the learner was rolled back to
    an earlier one and continued from there: `resume` ignores it, but `load` can read it.
    """

    path: Path
    seen: int
    line: int = 0
    pinned: bool = False
    abandoned: bool = False


@final
@dataclass(frozen=True)
class Lineage:
    """The history of a folder of checkpoints, in the file versions.json.

    A rollback starts a new line of versions, whose files have the number of the line in their
    names. `forks` maps it to the line and the number of examples it started from. `keep` is the
    number of files to retain. If the file cannot be read, `known` is false: then nothing is deleted
    and nothing is written.
    """

    keep: int | None = None
    pinned: frozenset[str] = frozenset()
    forks: dict[int, tuple[int, int]] = field(default_factory=dict)
    known: bool = True

    @classmethod
    def read(cls, folder: Path) -> Lineage:
        """Read the history of a folder; folders of older versions have no such file."""
        path = folder / FILE
        if not path.is_file():
            return cls()
        try:
            found: dict[str, Any] = json.loads(path.read_text("utf-8"))
            forks = {int(line): (int(of), int(at)) for line, of, at in found["forks"]}
            keep, pinned = found["keep"], frozenset(map(str, found["pinned"]))
            return cls(None if keep is None else int(keep), pinned, forks)
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning(
                "%s cannot be read (%s): pins and rollbacks are unknown, and no checkpoint is "
                "deleted until you delete or restore this file", path, error,
            )  # fmt: skip
            return cls(known=False)

    def write(self, folder: Path) -> None:
        """Write the history to the folder; it is on disk when this returns."""
        forks = [[line, *fork] for line, fork in sorted(self.forks.items())]
        facts = {"keep": self.keep, "pinned": sorted(self.pinned), "forks": forks}
        write_bytes(folder / FILE, json.dumps(facts).encode())


def versions_in(folder: Path) -> list[Version]:
    """List the versions in a folder, the newest first and abandoned ones last."""
    lineage, found = Lineage.read(folder), []
    for path in folder.glob(f"*{SUFFIX}"):
        if match := NAME.fullmatch(path.name):
            seen, line = int(match[1]), int(match[2] or 0)
            found.append(Version(path, seen, line, path.name in lineage.pinned))
    line = newest_line(lineage, found)
    limits = {line: math.inf}
    while line in lineage.forks and line > lineage.forks[line][0]:
        limit = limits[line]
        line, at = lineage.forks[line]
        limits[line] = min(limit, at)
    # If the history is missing, a line without an entry counts as part of the later ones.
    other = math.inf if line else -1
    each = (replace(v, abandoned=v.seen > limits.get(v.line, other)) for v in found)
    return sorted(each, key=lambda v: (not v.abandoned, v.line, v.seen), reverse=True)


def newest_line(lineage: Lineage, versions: Iterable[Version]) -> int:
    """Return the number of the line that was started last."""
    return max([0, *lineage.forks, *(version.line for version in versions)])


def named(folder: Path, seen: int, line: int) -> Path:
    """Return the path of a version; names of the first line sort by age."""
    return folder / f"{seen:015d}{f'-{line}' if line else ''}{SUFFIX}"
