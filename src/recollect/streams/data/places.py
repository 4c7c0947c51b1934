"""Where this machine keeps data, as its user has set it."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder", "named_folder", "offline"]


def named_folder(folder: Path | str | None = None) -> Path | None:
    """The folder of data that the user named: `folder`, else RECOLLECT_DATA, else none.

    >>> named_folder("/data/mnist")
    PosixPath('/data/mnist')
    """
    name = folder if folder is not None else os.environ.get("RECOLLECT_DATA") or None
    return None if name is None else Path(name).expanduser().absolute()


def cache_folder() -> Path:
    """Where fetched files are kept: RECOLLECT_CACHE, else the user's usual cache folder."""
    if own := os.environ.get("RECOLLECT_CACHE"):
        return Path(own).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "recollect"


def offline() -> bool:
    """Whether the user forbids the network, by RECOLLECT_OFFLINE=1."""
    return os.environ.get("RECOLLECT_OFFLINE", "").lower() not in ("", "0", "false", "no")
