"""Where, when and with which code a result was made."""

from __future__ import annotations

import hashlib
import inspect
import platform
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import final

import torch

import recollect
from recollect.methods import Method
from recollect.train.parallel import cores

__all__ = ["Made", "code_version"]

ROOMS = ("core", "memory", "methods", "nets", "streams", "train")


@final
@dataclass(frozen=True)
class Made:
    """What stands beside a result, so that it can be made again."""

    version: str
    code: str
    machine: str
    command: str
    created: str

    @classmethod
    def here(cls, kind: type[Method], command: str) -> Made:
        """By this code, on this machine, now."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(recollect.__version__, code_version(kind), _machine(), command, now)


@cache
def code_version(kind: type[Method]) -> str:
    """A short name for all the code that a method's results depend on.

    That is the source of recollect's rooms up to `train`, and of the method's own file if it
    comes from elsewhere.
    """
    root = Path(recollect.__file__).parent
    files = [file for room in ROOMS for file in (root / room).rglob("*.py")]
    found = hashlib.sha256()
    for file in sorted(files):
        found.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    if not kind.__module__.startswith("recollect."):
        try:
            module = sys.modules[kind.__module__]
            found.update(inspect.getsource(module).encode())
        except (OSError, TypeError, KeyError):
            found.update(f"{kind.__module__}.{kind.__qualname__}".encode())
    return found.hexdigest()[:12]


@cache
def _machine() -> str:
    system = f"{platform.system()} {platform.machine()}, {cores()} cores"
    python = f"Python {platform.python_version()}, PyTorch {torch.__version__}"
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{system}{gpu}, {python}"
