"""Atomic file writes, and files of tensors with JSON data.

Everything that recollect writes goes through here: learners, checkpoints of long runs, data sets
in the cache, results and reports.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from recollect.errors import DataError, InputError

FORMAT = 1
CHUNK = 2**20
NO_CHECKSUM = "0" * 64
TYPES = {
    torch.uint64: "U64", torch.int64: "I64", torch.float64: "F64", torch.complex64: "C64",
    torch.float32: "F32", torch.uint32: "U32", torch.int32: "I32", torch.bfloat16: "BF16",
    torch.float16: "F16", torch.uint16: "U16", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
ORDER = [*TYPES]  # the order of safetensors, largest elements first

Buffer = bytes | memoryview
Pause = Callable[[], object]


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Context that yields a temporary path and renames it to `path` on success (atomic write).

    Afterwards the file and its name are synced to disk; on an error, the temporary file is deleted.
    Missing folders are created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A unique name, so that two processes can write at the same time.
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
    """Write a file atomically: readers never see a partial file, not even after a crash.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_bytes(Path(folder) / "mnist" / "labels", b"0123")
    ...     (Path(folder) / "mnist" / "labels").read_bytes()
    b'0123'
    """
    with replacing(path) as part:
        part.write_bytes(data)


def write_text(path: Path | str, text: str) -> None:
    """Write a text file to a path given by the user; raises an `InputError` if it cannot."""
    check_writable(path)
    try:
        write_bytes(Path(path), text.encode())
    except OSError as error:
        raise InputError(f"cannot write {str(path)!r}: {error.strerror or error}") from None


def write_json(path: Path | str, data: object) -> None:
    """Write data as indented JSON to a path given by the user, with number lists on one line."""
    text = json.dumps(data, indent=1, allow_nan=False)
    # No string in the data can match, because its line breaks would be escaped.
    one_line = lambda found: f"[{' '.join(found[0][1:-1].split())}]"  # noqa: E731
    write_text(path, re.sub(r"\[\n[^\[\]{}\"]*\]", one_line, text))


def check_new(path: Path | str, force: bool = False, option: str = "force=True") -> None:
    """Raise an `InputError` if a path is not writable or, unless `force`, has a non-empty file."""
    check_writable(path)
    if not force and Path(path).is_file() and Path(path).stat().st_size:
        raise InputError(
            f"{str(path)!r} exists and would be overwritten: choose another name, or use {option}"
        )


def check_writable(path: Path | str) -> None:
    """Raise an `InputError` if no file can be written at a path, before any work is done."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"cannot write {str(target)!r}: it is a folder; choose a file name")
    if target.exists() and not target.is_file():
        raise InputError(f"cannot write {str(target)!r}: it is a device or a pipe, not a file")
    if not target.parent.is_dir():
        raise InputError(f"cannot write {str(target)!r}: the folder {target.parent} does not exist")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"cannot write {str(target)!r}: no permission in {target.parent}")


def pack(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    """Serialise JSON data and tensors to bytes, with a checksum; `unpack` reads them.

    The format is safetensors, with the data as JSON in the header. Equal content gives equal
    bytes.

    >>> facts, tensors = unpack(pack({"steps": 3}, {"weight": torch.ones(2)}))
    >>> facts["steps"], tensors["weight"]
    (3, tensor([1., 1.]))
    """
    text = as_json(facts)
    header, starts = _header(_checksum(text, tensors), text, tensors)
    return b"".join([header, *(data for name in starts for data in _chunks(tensors[name]))])


def write_packed(
    path: Path,
    facts: str,
    tensors: Mapping[str, Tensor],
    pause: Pause = lambda: None,
    parts: Mapping[str, Iterable[Tensor]] = MappingProxyType({}),
) -> None:
    """Write a file in the format of `pack`; `facts` is a text from `as_json`.

    Tensors are not copied, and other threads can run meanwhile. `pause` is called after every
    `CHUNK` of bytes. The content of a tensor in `parts` is taken from there, some rows at a time;
    each of them is read once, before the next one is requested.
    """
    # The checksum comes first in the file, but is known last.
    header, starts = _header(NO_CHECKSUM, facts, tensors)
    found = hashlib.sha256(facts.encode())
    with replacing(path) as part, part.open("wb", buffering=0) as stream:
        for name in sorted(tensors):
            found.update(_described(name, tensors[name]))
            stream.seek(len(header) + starts[name])
            for rows in parts.get(name, (tensors[name],)):
                for data in _chunks(rows):
                    found.update(data)
                    _write(stream, data)
                    pause()
        stream.seek(0)
        _write(stream, _header(found.hexdigest(), facts, tensors)[0])


def as_json(facts: Mapping[str, Any]) -> str:
    """Serialise facts as JSON for `pack`; raises an `InputError` for other data."""
    try:
        return json.dumps({"format": FORMAT, **facts}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"data saved with tensors must be plain JSON data: {error}") from None


def _header(
    checksum: str, text: str, tensors: Mapping[str, Tensor]
) -> tuple[bytes, dict[str, int]]:
    """Return the header of a safetensors file, and where tensors start after it, in their order.

    Written by hand, because safetensors would block other threads during the whole write.
    """
    names = sorted(tensors, key=lambda name: (ORDER.index(tensors[name].dtype), name))
    # A single entry, because the order of several would be undefined.
    header: dict[str, Any] = {"__metadata__": {"recollect": f"{checksum} {text}"}}
    starts, start = dict[str, int](), 0
    for name in names:
        tensor = tensors[name]
        stop = start + tensor.numel() * tensor.element_size()
        kind, shape = TYPES[tensor.dtype], list(tensor.shape)
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [start, stop]}
        starts[name], start = start, stop
    data = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    data += b" " * (-len(data) % 8)
    return len(data).to_bytes(8, "little") + data, starts


def unpack(data: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the JSON data and tensors from bytes of `pack`; raises a `DataError` for other bytes."""
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
        raise DataError("it was not written by recollect, or is damaged") from None
    if found != FORMAT:
        raise DataError(f"it has format {found}, but this version of recollect reads {FORMAT}")
    if checksum != _checksum(text, tensors):
        raise DataError("it is damaged: its checksum does not match its content")
    return facts, tensors


def _checksum(text: str, tensors: Mapping[str, Tensor]) -> str:
    found = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        found.update(_described(name, tensors[name]))
        for data in _chunks(tensors[name]):
            found.update(data)
    return found.hexdigest()


def _described(name: str, tensor: Tensor) -> bytes:
    return f"{name} {tensor.dtype} {list(tensor.shape)}".encode()


def _chunks(tensor: Tensor) -> Iterator[memoryview]:
    """Yield the bytes of a tensor, at most `CHUNK` at a time."""
    if tensor.numel():  # an empty tensor cannot be viewed as bytes
        whole = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
        for start in range(0, len(whole), CHUNK):
            yield whole[start : start + CHUNK]


def _write(stream: RawIOBase, data: Buffer) -> None:
    left = memoryview(data)
    while left:
        left = left[stream.write(left) or 0 :]


def _sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that the file's new name survives a crash (POSIX only)."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
