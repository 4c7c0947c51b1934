"""Where, when and with which code a result was made."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from typing import final

import torch

import recollect
from recollect.train import Job
from recollect.train.parallel import cores
from recollect.train.provenance import Provenance

__all__ = ["Made"]


@final
@dataclass(frozen=True)
class Made:
    """What stands beside a result, so that it can be made again.

    What an older version of recollect did not note is empty.
    """

    version: str
    code: str
    machine: str
    command: str
    created: str
    commit: str = ""
    torch: str = ""
    precision: str = ""
    network: str = ""
    stream: str = ""

    @classmethod
    def here(cls, job: Job, command: str) -> Made:
        """Runs of a job by this code, on this machine, now."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(
            version=recollect.__version__,
            machine=_machine(),
            command=command,
            created=now,
            **asdict(Provenance.of(job)),
        )


@cache
def _machine() -> str:
    system = f"{platform.system()} {platform.machine()}, {cores()} cores"
    python = f"Python {platform.python_version()}, PyTorch {torch.__version__}"
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{system}{gpu}, {python}"
