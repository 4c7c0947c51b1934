"""Create a stream from a map-style PyTorch data set."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np
import torch
from torch import Tensor

from recollect.errors import InputError
from recollect.streams.arrays import Options, from_arrays
from recollect.streams.checks import Parts, is_parts
from recollect.streams.reading import with_progress
from recollect.streams.tasks import TaskStream

ONLY = ""


def from_dataset(
    train: Any, test: Any = None, *, name: str = "dataset", **options: Unpack[Options]
) -> TaskStream:
    """Create a stream from a map-style `torch.utils.data.Dataset`, such as torchvision's.

    Its items are pairs (example, label). An example is a tensor, an array or a Pillow image, all of
    the same shape, or a mapping or tuple of tensors, which the network gets as arguments. A label
    is an integer. All items are read into memory once, so a random transform of the data set would
    give the same result in every epoch: pass it as `transform` instead, or use `crop` and `flip`.

    Args:
        train: Training data set, with a length and indexable items.
        test: Test data set. By default a fifth of each class is held out.
        name: Name of the stream.
        options: Options of `from_arrays`: scenario, tasks, class_order, crop, flip and so on.

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


def _read(dataset: Any, part: str) -> tuple[Tensor | Parts, Tensor]:
    """Read all examples and labels of a data set."""
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
    found: dict[str, Tensor] = {}
    y, several = torch.empty(count, dtype=torch.int64), (False, False)
    for number in with_progress(range(count), count, f"the {part} set"):
        what = f"item {number} of {part}"
        example, y[number] = _pair(dataset[number], what)
        parts = _parts(example, what)
        if not number:
            found = {k: torch.empty(count, *t.shape, dtype=t.dtype) for k, t in parts.items()}
            several = is_parts(example), isinstance(example, Mapping)
        if parts.keys() != found.keys():
            raise InputError(
                f"{what} has the fields {list(parts)}, and item 0 has {list(found)}: let the data "
                f"set give all items the same"
            )
        for key, tensor in parts.items():
            x, where = found[key], f"{what}, {key!r}," if several[0] else what
            if tensor.shape != x.shape[1:] or tensor.dtype != x.dtype:
                raise InputError(
                    f"{where} is {list(tensor.shape)} of {tensor.dtype}, and item 0 is "
                    f"{list(x.shape[1:])} of {x.dtype}: let the data set bring all to one shape"
                )
            x[number] = tensor
    if not several[0]:
        return found[ONLY], y
    return (found if several[1] else tuple(found.values())), y


def _parts(example: Any, what: str) -> dict[str, Tensor]:
    """Return the tensors of an example by name; a single tensor has the name `ONLY`."""
    if not is_parts(example):
        return {ONLY: _tensor(example, what)}
    given = example if isinstance(example, Mapping) else {str(n): e for n, e in enumerate(example)}
    return {str(k): _tensor(part, f"{what}, {k!r},", "buif") for k, part in given.items()}


def _pair(item: Any, what: str) -> tuple[Any, int]:
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
    return example, number


def _tensor(example: Any, what: str, kinds: str = "uif") -> Tensor:
    """Convert an example to a tensor; `kinds` are the allowed NumPy dtype kinds."""
    if isinstance(example, Tensor):
        return example.detach()
    array = np.asarray(example)
    if array.dtype.kind not in kinds:
        raise InputError(
            f"the example of {what} is a {type(example).__name__}, but a tensor, an array or an "
            "image is expected: convert it in the data set's transform"
        )
    if type(example).__module__.startswith("PIL") and array.ndim == 3:
        array = array.transpose(2, 0, 1)
    return torch.from_numpy(array.copy())
