"""Small files to test data sets on: written to folders, and described by size and checksum."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from recollect.streams.data.files import File


def described(files: Mapping[str, bytes]) -> tuple[File, ...]:
    return tuple(
        File(name, len(content), hashlib.md5(content).hexdigest())
        for name, content in files.items()
    )


def fill(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def ignore(message: str) -> None:
    pass
