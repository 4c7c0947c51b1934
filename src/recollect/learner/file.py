"""A learner as one file: tensors in safetensors, everything else as JSON in its header."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from recollect.errors import DataError, InputError
from recollect.streams.data.cache import keep

__all__ = ["packed", "read", "unpacked", "write"]

FORMAT = 1


def packed(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bytes:
    """Facts and tensors as bytes that `unpacked` understands, with a checksum over both."""
    try:
        text = json.dumps({"format": FORMAT, **facts}, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"the notes of a learner must be plain JSON data: {error}") from None
    rows = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # One entry: safetensors writes several in any order, and equal learners have equal bytes.
    return save(rows, {"recollect": f"{_checksum(text, rows)} {text}"})


def unpacked(data: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The facts and tensors in some bytes; whatever is not exactly that is a `DataError`."""
    try:
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])["__metadata__"]
        checksum, _, text = header["recollect"].partition(" ")
        tensors = load(data)
        facts = json.loads(text)
        found = facts["format"]
    except (
        SafetensorError, ValueError, KeyError, TypeError, AttributeError, OverflowError,
        RecursionError,
    ):  # fmt: skip
        raise DataError("it is no learner that recollect saved, or it is damaged") from None
    if found != FORMAT:
        raise DataError(f"it has the format {found}, and this version of recollect reads {FORMAT}")
    if checksum != _checksum(text, tensors):
        raise DataError("it is damaged: its checksum is not that of its content")
    return facts, tensors


def write(path: Path, data: bytes) -> None:
    """Put a file in its place, whole or not at all, and on the disk when this returns."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise DataError(f"{path} cannot be written: it is a device or a pipe, and no file")
        keep(path, data)
        _settle(path.parent)
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}") from None


def read(path: Path) -> bytes:
    """What a file holds."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None


def _checksum(text: str, tensors: Mapping[str, Tensor]) -> str:
    found = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        if tensor.numel():  # one without elements cannot be looked at as bytes
            found.update(tensor.flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()


def _settle(folder: Path) -> None:
    """Have the folder's list of names on the disk too, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
