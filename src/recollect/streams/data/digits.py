"""The digits of scikit-learn: 1,797 handwritten digits of 8x8 pixels, which need no download."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, permute
from recollect.errors import DataError, MissingExtraError
from recollect.extras import needs
from recollect.streams.data.dataset import Dataset
from recollect.streams.data.files import Finding, Report

__all__ = ["TEST", "TRAIN", "held_out", "load", "look"]

TRAIN, TEST = 1438, 359
CLASSES = 10
BRIGHTEST = 16
MD5 = "7696c07daa6d85010f8268703ab8b067"


def load(folder: Path | None, report: Report) -> Dataset:
    """Load the digits out of scikit-learn; their 17 shades become 0..255."""
    x, y = _read()
    x = (x.double() * 255 / BRIGHTEST).round().to(torch.uint8)
    test = held_out(y)
    return Dataset("digits", CLASSES, x[~test], y[~test], x[test], y[test])


def look(folder: Path | None) -> Finding:
    """Say whether scikit-learn is here and has the digits that it should have."""
    try:
        _read()
    except (DataError, MissingExtraError) as problem:
        return Finding("not here", str(problem))
    return Finding("bundled")


def held_out(y: Tensor) -> Tensor:
    """Which examples are tested, `[N]` bool: a fifth of every class, always the same fifth.

    The digits come without a split. This one is a pure function of the labels: within each class
    the examples are permuted by seed 0, and the first fifth of that order, rounded, is tested.

    >>> held_out(torch.tensor([0] * 10 + [1] * 5)).split([10, 5])[0].sum()
    tensor(2)
    """
    mask = torch.zeros_like(y, dtype=torch.bool)
    for label in sorted(set(y.tolist())):
        members = (y == label).nonzero().flatten()
        key = bits(torch.tensor([0]), Purpose.SPLIT, label)
        count = round(len(members) / 5)
        mask[members[permute(key, torch.arange(count), len(members))]] = True
    return mask


def _read() -> tuple[Tensor, Tensor]:
    """Images `[N, 8, 8]` uint8 of values 0..16, and labels `[N]` int64, checked."""
    with needs("sklearn", extra="digits", what="the data set digits"):
        from sklearn.datasets import load_digits
    bunch = load_digits()
    x, y = torch.from_numpy(bunch.images).to(torch.uint8), torch.from_numpy(bunch.target).long()
    content = x.numpy().tobytes() + y.to(torch.uint8).numpy().tobytes()
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != MD5:
        raise DataError(
            f"the digits of the installed scikit-learn are not the usual ones: their MD5 checksum "
            f"is {found} and {MD5} was expected; run pip install --force-reinstall scikit-learn"
        )
    return x, y
