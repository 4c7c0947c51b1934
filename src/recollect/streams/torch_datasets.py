"""A stream from a map-style data set of torch."""

from __future__ import annotations

import operator
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

from recollect.errors import InputError
from recollect.streams.arrays import Options, from_arrays
from recollect.streams.reading import with_progress
from recollect.streams.tasks import TaskStream

__all__ = ["from_dataset"]


def from_dataset(
    train: Any, test: Any = None, *, name: str = "dataset", **options: Unpack[Options]
) -> TaskStream:
    """Make a stream of a `torch.utils.data.Dataset`, such as torchvision's.

    Its items are pairs (example, label): a tensor, an array or a Pillow image, all of one shape,
    and a whole number. They are read once, into memory. So a random transform of the data set would
    do the same in every epoch: pass it as `transform` instead, or use `crop` and `flip`.

    Args:
        train: A data set with a length, whose items are got by an index.
        test: The same for scoring; without it a fifth of every class is held out.
        name: What to call the stream.
        options: Those of `from_arrays`: scenario, tasks, class_order, crop, flip and so on.

    >>> from torch.utils.data import TensorDataset
    >>> data = TensorDataset(torch.rand(40, 3, 8, 8), torch.arange(40) % 4)
    >>> stream = from_dataset(data, tasks=2, crop=1, flip=True)
    >>> stream.tasks, stream.shape, stream.dtype
    (2, (3, 8, 8), torch.float32)
    """
    x, y = _read(train, "train")
    return from_arrays(
        x, y, test=None if test is None else _read(test, "test"), name=name, **options
    )


def _read(dataset: Any, part: str) -> tuple[Tensor, Tensor]:
    """All examples and labels of a data set."""
    try:
        count = len(dataset)
        dataset.__getitem__  # noqa: B018 - iterable data sets have none
    except (TypeError, NotImplementedError, AttributeError):
        raise InputError(
            f"{part} is a {type(dataset).__name__}, but a data set with a length whose items are "
            "got by an index is expected: read an iterable one into arrays, for from_arrays"
        ) from None
    if not count:
        raise InputError(f"{part} is empty: at least one example is needed")
    x, y = None, torch.empty(count, dtype=torch.int64)
    for number in with_progress(range(count), count, f"the {part} set"):
        example, y[number] = _pair(dataset[number], f"item {number} of {part}")
        if x is None:
            x = torch.empty(count, *example.shape, dtype=example.dtype)
        if example.shape != x.shape[1:] or example.dtype != x.dtype:
            raise InputError(
                f"item {number} of {part} is {list(example.shape)} of {example.dtype}, and item 0 "
                f"is {list(x.shape[1:])} of {x.dtype}: let the data set bring all to one shape"
            )
        x[number] = example
    assert x is not None
    return x, y


def _pair(item: Any, what: str) -> tuple[Tensor, int]:
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise InputError(
            f"{what} is a {type(item).__name__}, but a pair (example, label) is expected"
        )
    example, label = item
    try:
        if isinstance(label, bool):
            raise TypeError
        number = operator.index(label)
    except TypeError:
        raise InputError(
            f"the label of {what} is {label!r}, but a whole number is expected: let the data set "
            "return an int"
        ) from None
    if isinstance(example, Tensor):
        return example.detach(), number
    array = np.asarray(example)
    if array.dtype.kind not in "uif":
        raise InputError(
            f"the example of {what} is a {type(example).__name__}, but a tensor, an array or an "
            "image is expected: convert it in the data set's transform"
        )
    if type(example).__module__.startswith("PIL") and array.ndim == 3:
        array = array.transpose(2, 0, 1)
    return torch.from_numpy(array.copy()), number
