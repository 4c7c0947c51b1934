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
from safetensors.torch import load
from torch import Tensor

from recollect.errors import DataError, InputError

__all__ = [
    "as_json", "check_new", "check_writable", "pack", "replacing", "unpack", "write_bytes",
    "write_json", "write_packed", "write_text",
]  # fmt: skip

FORMAT = 1
CHUNK = 2**22
TYPES = {
    torch.uint64: "U64", torch.int64: "I64", torch.float64: "F64", torch.complex64: "C64",
    torch.float32: "F32", torch.uint32: "U32", torch.int32: "I32", torch.bfloat16: "BF16",
    torch.float16: "F16", torch.uint16: "U16", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
ORDER = [*TYPES]  # in which safetensors has them, the largest elements first

Buffer = bytes | memoryview


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


def check_new(path: Path | str, force: bool = False, option: str = "force=True") -> None:
    """Refuse a path at which a file with content lies, unless `force`, or none can be written."""
    check_writable(path)
    if not force and Path(path).is_file() and Path(path).stat().st_size:
        raise InputError(
            f"{str(path)!r} exists and would be overwritten: give another name, or {option}"
        )


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
    return b"".join(_pieces(as_json(facts), tensors))


def write_packed(path: Path, facts: str, tensors: Mapping[str, Tensor]) -> None:
    """Write to a file what `pack` returns for tensors and the facts in a text of `as_json`.

    No second copy is made, and other threads go on meanwhile.
    """
    with replacing(path) as part, part.open("wb", buffering=0) as stream:
        for piece in _pieces(facts, tensors):
            left = memoryview(piece)
            while left:
                left = left[stream.write(left[:CHUNK]) :]


def as_json(facts: Mapping[str, Any]) -> str:
    """Plain data as `pack` writes it; refused if it is anything else."""
    try:
        return json.dumps({"format": FORMAT, **facts}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"what is saved beside tensors must be plain JSON data: {error}") from None


def _pieces(text: str, tensors: Mapping[str, Tensor]) -> Iterator[Buffer]:
    """The parts of a safetensors file: its header, and the bytes of every tensor.

    It is written here since safetensors would keep other threads waiting for all of it.
    """
    rows = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    names = sorted(rows, key=lambda name: (ORDER.index(rows[name].dtype), name))
    # One entry: safetensors writes several in any order.
    header: dict[str, Any] = {"__metadata__": {"recollect": f"{_checksum(text, rows)} {text}"}}
    start = 0
    for name in names:
        tensor = rows[name]
        stop = start + tensor.numel() * tensor.element_size()
        kind, shape = TYPES[tensor.dtype], list(tensor.shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, stop]}
        start = stop
    data = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    data += b" " * (-len(data) % 8)
    yield len(data).to_bytes(8, "little") + data
    yield from (_bytes_of(rows[name]) for name in names if rows[name].numel())


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
            found.update(_bytes_of(tensor))
    return found.hexdigest()


def _bytes_of(tensor: Tensor) -> memoryview:
    return tensor.flatten().view(torch.uint8).numpy().data


def _sync_folder(folder: Path) -> None:
    """Have the folder's list of names on the disk too, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
