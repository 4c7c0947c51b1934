"""Which files a folder of checkpoints has, which of them are the present line, and which stay."""

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

__all__ = ["SUFFIX", "Lineage", "Version", "named", "newest_line", "versions_in"]

SUFFIX = ".recollect"
FILE = "versions.json"
NAME = re.compile(rf"(\d{{1,18}})(?:-(\d{{1,9}}))?{re.escape(SUFFIX)}")

_log = logging.getLogger("recollect.learner")


@final
@dataclass(frozen=True)
class Version:
    """A saved state: the file, and how many examples had been seen.

    A version that is `pinned` is never removed. One is `abandoned` if the learner went back to an
    earlier one and learned on from there: `resume` does not take it, and `load` can.
    """

    path: Path
    seen: int
    line: int = 0
    pinned: bool = False
    abandoned: bool = False


@final
@dataclass(frozen=True)
class Lineage:
    """What a folder knows of its files besides their names.

    Going back to an earlier version starts a new line, whose files have its number in their names.
    `forks` says from which line, and after how many examples. `keep` is how many files stay.
    Notes that cannot be read are not `known`: then nothing is removed, and nothing is noted.
    """

    keep: int | None = None
    pinned: frozenset[str] = frozenset()
    forks: dict[int, tuple[int, int]] = field(default_factory=dict)
    known: bool = True

    @classmethod
    def read(cls, folder: Path) -> Lineage:
        """What is noted in a folder; folders of older versions have no notes."""
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
                "%s cannot be read (%s): pins and rollbacks are not known, and no version is "
                "removed until it is deleted or restored", path, error,
            )  # fmt: skip
            return cls(known=False)

    def write(self, folder: Path) -> None:
        """Note this in the folder; it is on the disk when this returns."""
        forks = [[line, *fork] for line, fork in sorted(self.forks.items())]
        facts = {"keep": self.keep, "pinned": sorted(self.pinned), "forks": forks}
        write_bytes(folder / FILE, json.dumps(facts).encode())


def versions_in(folder: Path) -> list[Version]:
    """The versions in a folder: the newest first, and those that were abandoned last."""
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
    # If notes are missing, a line without them counts as a part of the later ones.
    other = math.inf if line else -1
    each = (replace(v, abandoned=v.seen > limits.get(v.line, other)) for v in found)
    return sorted(each, key=lambda v: (not v.abandoned, v.line, v.seen), reverse=True)


def newest_line(lineage: Lineage, versions: Iterable[Version]) -> int:
    """The number of the line that was begun last."""
    return max([0, *lineage.forks, *(version.line for version in versions)])


def named(folder: Path, seen: int, line: int) -> Path:
    """The file of a state; of the first line, names sort by age."""
    return folder / f"{seen:015d}{f'-{line}' if line else ''}{SUFFIX}"
