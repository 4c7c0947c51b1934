"""The provenance of a result: machine, date, command and commit."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, final

import torch

import recollect
from recollect.train.devices import cores

if TYPE_CHECKING:
    from recollect.train.job import Job

GIT_SECONDS = 10

# The keys of the object `made` in files, in order; some are the fields of a run's identity.
MADE = (
    "version", "code", "machine", "command", "created", "commit", "torch", "precision", "network",
    "stream",
)  # fmt: skip


@final
@dataclass(frozen=True)
class Provenance:
    """The provenance of a result, to reproduce it.

    Together with the identity of its run, it is the object `made` in files. Fields that an older
    version of recollect did not write are empty.
    """

    version: str = ""
    machine: str = ""
    command: str = ""
    created: str = ""
    commit: str = ""
    torch: str = ""
    precision: str = ""

    @classmethod
    def here(cls, job: Job, command: str) -> Provenance:
        """The provenance of runs of a job with this code, on this machine, now."""
        return cls(
            version=recollect.__version__,
            machine=_machine(),
            command=command,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            commit=commit(),
            torch=str(torch.__version__),
            precision=job.precision,
        )

    @classmethod
    def from_json(cls, made: Mapping[str, str]) -> Provenance:
        """Read the provenance from the object `made` of a file."""
        return cls(**{field.name: made.get(field.name, "") for field in fields(cls)})


@cache
def commit() -> str:
    """The git commit of recollect's source; empty if it does not run from a checkout.

    `+changes` means that files under `src` differ from the commit, `+unknown` that git failed.
    """
    return commit_at(Path(recollect.__file__).resolve().parents[2])


def commit_at(root: Path) -> str:
    """The commit of a checkout with its source in `src`, read from git's files."""
    if not (root / "src" / "recollect").is_dir():
        return ""
    try:
        name = _head(_git_folder(root / ".git"))
    except (OSError, ValueError):
        return ""
    if not name:
        return ""
    changed = _changed(root)
    return name + {True: "+changes", False: "", None: "+unknown"}[changed]


@cache
def _machine() -> str:
    system = f"{platform.system()} {platform.machine()}, {cores()} cores"
    python = f"Python {platform.python_version()}, PyTorch {torch.__version__}"
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{system}{gpu}, {python}"


def _git_folder(path: Path) -> Path:
    """The folder with git's files; in a linked work tree, `.git` is a file with its path."""
    if path.is_dir():
        return path
    return path.parent / path.read_text("utf-8").removeprefix("gitdir:").strip()


def _head(folder: Path) -> str:
    """The commit that is checked out; empty if it is not found."""
    head = (folder / "HEAD").read_text("utf-8").strip()
    if not head.startswith("ref:"):
        return head
    name = head.removeprefix("ref:").strip()
    shared = folder / "commondir"
    common = folder / shared.read_text("utf-8").strip() if shared.is_file() else folder
    for refs in (folder, common):
        if (refs / name).is_file():
            return (refs / name).read_text("utf-8").strip()
    packed = common / "packed-refs"
    lines = packed.read_text("utf-8").splitlines() if packed.is_file() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")


def _changed(root: Path) -> bool | None:
    """Whether files under `src` differ from the commit; None if git fails."""
    ask = ["git", "-C", str(root), "status", "--porcelain", "--untracked-files=all", "--", "src"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        said = subprocess.run(
            ask, capture_output=True, timeout=GIT_SECONDS, env={**plain, "GIT_OPTIONAL_LOCKS": "0"}
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return bool(said.stdout.strip()) if said.returncode == 0 else None
