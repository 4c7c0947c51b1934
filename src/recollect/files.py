"""Files that appear whole or not at all, and tensors with plain data in one file.

Everything that recollect writes goes through here: learners, checkpoints of long runs, data sets
in the cache, results and reports.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from recollect.errors import DataError, InputError

__all__ = [
    "check_writable", "pack", "replacing", "unpack", "write_bytes", "write_json", "write_text",
]  # fmt: skip

FORMAT = 1


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to: at the end the file there gets the name `path`, and on an error none.

    The file and its name are on the disk when this ends. Missing folders are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own, so that two processes that write at once do not write into one file.
    part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        yield part
        with part.open("rb+") as stream:
            os.fsync(stream.fileno())
        part.replace(path)
        _sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file so that nobody ever sees half of it, under its name or after a crash.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_bytes(Path(folder) / "mnist" / "labels", b"0123")
    ...     (Path(folder) / "mnist" / "labels").read_bytes()
    b'0123'
    """
    with replacing(path) as part:
        part.write_bytes(data)


def write_text(path: Path | str, text: str) -> None:
    """Write a text file where a person said; an `InputError` if that is not possible."""
    check_writable(path)
    try:
        write_bytes(Path(path), text.encode())
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror or error}") from None


def write_json(path: Path | str, data: object) -> None:
    """Write data as JSON where a person said; a list of numbers takes one line."""
    text = json.dumps(data, indent=1, allow_nan=False)
    # No text within the data can look like this: it would have its line breaks escaped.
    write_text(path, re.sub(r"\[\n[^\[\]{}\"]*\]", _on_one_line, text))


def _on_one_line(found: re.Match[str]) -> str:
    return f"[{' '.join(found[0][1:-1].split())}]"


def check_writable(path: Path | str) -> None:
    """Refuse a path at which no file can be written, before any work is done."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"cannot write {str(target)!r}: it is a folder; give a file name")
    if target.exists() and not target.is_file():
        raise InputError(f"cannot write {str(target)!r}: it is a device or a pipe, not a file")
    if not target.parent.is_dir():
        raise InputError(f"cannot write {str(target)!r}: the folder {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"cannot write {str(target)!r}: no permission in {target.parent}")


def pack(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    """Plain data and tensors as bytes that `unpack` reads, with a checksum over both.

    That is a safetensors file with the data as JSON in its header. Equal content gives equal
    bytes.

    >>> facts, tensors = unpack(pack({"steps": 3}, {"weight": torch.ones(2)}))
    >>> facts["steps"], tensors["weight"]
    (3, tensor([1., 1.]))
    """
    try:
        text = json.dumps({"format": FORMAT, **facts}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"what is saved beside tensors must be plain JSON data: {error}") from None
    rows = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # One entry: safetensors writes several in any order.
    return save(rows, {"recollect": f"{_checksum(text, rows)} {text}"})


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The plain data and tensors in some bytes; a `DataError` for anything else."""
    try:
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])["__metadata__"]
        checksum, _, text = header["recollect"].partition(" ")
        tensors = load(data)
        facts = json.loads(text)
        found = facts.pop("format")
    except (
        SafetensorError, ValueError, KeyError, TypeError, AttributeError, OverflowError,
        RecursionError,
    ):  # fmt: skip
        raise DataError("recollect did not write it, or it is damaged") from None
    if found != FORMAT:
        raise DataError(f"it has the format {found}, and this version of recollect reads {FORMAT}")
    if checksum != _checksum(text, tensors):
        raise DataError("it is damaged: its checksum is not that of its content")
    return facts, tensors


def _checksum(text: str, tensors: Mapping[str, Tensor]) -> str:
    found = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        if tensor.numel():  # one without elements cannot be viewed as bytes
            found.update(tensor.flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()


def _sync_folder(folder: Path) -> None:
    """Have the folder's list of names on the disk too, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
