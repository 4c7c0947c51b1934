"""Scikit-learn's digits: 1,797 handwritten digits of 8x8 pixels, which need no download."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from torch import Tensor

from recollect.errors import DataError, MissingExtraError
from recollect.extras import needs
from recollect.streams.data.dataset import Dataset, held_out
from recollect.streams.data.files import Finding, Report

TRAIN, TEST = 1438, 359
MD5 = "7696c07daa6d85010f8268703ab8b067"


def load(folder: Path | None, report: Report) -> Dataset:
    """Load the digits from scikit-learn, with their 17 grey levels scaled to 0..255."""
    x, y = _read()
    x = (x.double() * 255 / 16).round().to(torch.uint8)
    test = held_out(y)
    return Dataset("digits", 10, x[~test], y[~test], x[test], y[test])


def look(folder: Path | None) -> Finding:
    """Return whether scikit-learn is installed and its digits are valid."""
    try:
        _read()
    except (DataError, MissingExtraError) as problem:
        return Finding("not here", str(problem))
    return Finding("bundled")


def _read() -> tuple[Tensor, Tensor]:
    """Read and verify images `[N, 8, 8]` uint8 of values 0..16, and labels `[N]` int64."""
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
