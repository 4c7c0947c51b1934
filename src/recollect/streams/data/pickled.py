"""The pickled batches of CIFAR, read without running anything that a pickle may name.

Unpickling calls what the pickle names. Here every name but three is refused, and those three, which
numpy's arrays need, are replaced by classes that only keep what they are given.
"""

from __future__ import annotations

import io
import pickle

import numpy as np
from numpy.typing import NDArray

from recollect.errors import DataError

__all__ = ["parse_pickled"]


def parse_pickled(data: bytes, name: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Rows of bytes `[N, D]` and labels `[N]` from a pickled batch; `name` is for the errors."""
    try:
        batch = _Unpickler(io.BytesIO(data), encoding="bytes").load()
        rows, labels = batch[b"data"], batch[b"labels"]
        y = np.array(labels, dtype=np.uint8)
        x = np.frombuffer(rows.content, dtype=np.uint8).reshape(rows.shape)
        if rows.kind.code != b"u1" or rows.by_columns or x.ndim != 2 or y.shape != x.shape[:1]:
            raise ValueError("it should hold rows of bytes and a label for each row")
    except Exception as problem:  # a pickle that is not well formed may raise anything
        raise DataError(
            f"{name} is not a pickled batch of CIFAR ({type(problem).__name__}: {problem}); "
            "replace it by the original file"
        ) from problem
    return x, y


class _Array:
    """Stands in for numpy's array, and for the function that makes an empty one."""

    def __init__(self, *arguments: object) -> None:
        pass

    def __setstate__(self, state: tuple[int, tuple[int, ...], _Kind, bool, bytes]) -> None:
        _, self.shape, self.kind, self.by_columns, self.content = state


class _Kind:
    """Stands in for numpy's data type."""

    def __init__(self, code: bytes, *arguments: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        pass


STAND_INS = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Kind,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        if (module, name) not in STAND_INS:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is not allowed")
        return STAND_INS[module, name]
