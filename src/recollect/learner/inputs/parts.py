"""Examples with several tensors: convert mappings and tuples to packed rows."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from recollect.core.packing import Packing
from recollect.errors import InputError
from recollect.learner.inputs.examples import Kind, batch_of, check_finite, tensor_of

LABELS = ("labels", "label")  # the usual keys in text data sets


def has_parts(x: object, network: nn.Module) -> bool:
    """Whether x consists of several inputs of a network, and is not one tensor.

    A mapping always does. A tuple, or the list that a DataLoader turns it into, does if the
    network's `forward` has at least two required arguments; otherwise it is one tensor.

    >>> has_parts({"ids": [1, 2]}, nn.Linear(2, 2)), has_parts((1, 2), nn.Linear(2, 2))
    (True, False)
    >>> has_parts((torch.ones(2), torch.ones(2)), nn.Bilinear(2, 2, 3))
    True
    """
    if isinstance(x, Mapping):
        return True
    if not isinstance(x, list | tuple):
        return False
    try:
        known = inspect.signature(network.forward).parameters.values()
    except (TypeError, ValueError):  # the signature is not available
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in known if p.kind in positional and p.default is inspect.Parameter.empty]
    return len(needed) > 1


def parts_of(x: Any, kind: Kind | None = None) -> dict[str, Tensor]:
    """Convert the parts of a mapping or tuple to tensors, by name or position."""
    packing = kind.packing if kind else None
    known = {part.name: part.dtype for part in packing.parts} if packing else {}
    named = isinstance(x, Mapping)
    given = dict(x) if named else {str(number): part for number, part in enumerate(x)}
    if not given:
        raise InputError("an example must have at least one tensor, but this one is empty")
    found: dict[str, Tensor] = {}
    for name, part in given.items():
        if not isinstance(name, str):
            raise InputError(
                f"an example has the field {name!r}: field names must be strings, namely the "
                f"argument names of the network's forward"
            )
        try:
            found[name] = tensor_of(part, masks=True, like=known.get(name))
        except InputError as error:
            raise InputError(f"the {'field' if named else 'input'} {name!r}: {error}") from None
    home = next(iter(found.values())).device
    return {name: tensor.to(home) for name, tensor in found.items()}


def first_of(parts: Mapping[str, Tensor], kind: Kind | None) -> tuple[Tensor, Kind | None]:
    """Return the tensor with the most axes, which distinguishes batches, and its kind."""
    name = max(parts, key=lambda each: parts[each].dim())
    packing = kind.packing if kind else None
    known = {part.name: Kind(part.shape, part.dtype) for part in packing.parts} if packing else {}
    return parts[name], known.get(name)


def as_batch(
    parts: Mapping[str, Tensor], count: int | None, *, named: bool
) -> tuple[Tensor, Packing]:
    """Pack `count` examples, or one if None, into rows `[n, words]`; also return the packing."""
    if count is None:
        parts = {name: tensor.unsqueeze(0) for name, tensor in parts.items()}
    for name, tensor in parts.items():
        what = f"the {'field' if named else 'input'} {name!r}"
        if not tensor.dim() or len(tensor) != (count or 1):
            found = f"has {len(tensor)} examples" if tensor.dim() else "is a single number"
            raise InputError(f"there are {count} labels, but {what} {found}")
        if not tensor.numel():
            raise InputError(f"{what} is empty: its shape is {list(tensor.shape)}")
    packing = Packing.of(parts, named=named)
    return packing.pack(parts), packing


def query(x: Any, kind: Kind, device: torch.device) -> tuple[Tensor, bool]:
    """Convert examples to predict to a batch `[n, ...]`; also return whether x was a batch."""
    packing = kind.packing
    if packing is None:
        if isinstance(x, Mapping):
            kind.check(torch.empty(0), Packing(()))
        return kind.batch(tensor_of(x, like=kind.dtype), device)
    if not isinstance(x, Mapping if packing.named else list | tuple):
        packing.check(None)
    parts = parts_of(x, kind)
    known = {part.name: len(part.shape) for part in packing.parts}
    several = any(tensor.dim() > known.get(n, tensor.dim()) for n, tensor in parts.items())
    sizes = {name: len(tensor) if tensor.dim() else 0 for name, tensor in parts.items()}
    count = max(sizes.values()) if several else None
    if several and len(set(sizes.values())) > 1:
        raise InputError(f"the parts of a batch have different numbers of examples: {sizes}")
    rows, found = as_batch(parts, count, named=packing.named)
    packing.check(found)
    _check_reals(rows, packing)
    return rows.to(device), several


def first_rows(
    x: Any, count: int | None, network: nn.Module, kind: Kind | None
) -> tuple[Tensor, Packing | None]:
    """Convert the first `count` examples of a stream, or one if None, to a batch `[n, ...]`.

    `kind` is that of examples that already wait for their labels, or None.
    """
    if not has_parts(x, network):
        batch = batch_of(tensor_of(x, like=kind and kind.dtype), count, "ids").cpu()
        check_finite(batch)
        return batch, None
    rows, packing = as_batch(parts_of(x, kind), count, named=isinstance(x, Mapping))
    _check_reals(rows, packing)
    return rows.cpu(), packing


def _check_reals(rows: Tensor, packing: Packing) -> None:
    reals = packing.floats(rows)
    if reals is not None:
        check_finite(reals)


def pair_of(item: Any) -> tuple[Any, Any]:
    """Split an item of a stream, a pair or a mapping, into the example and the label."""
    if not isinstance(item, Mapping):
        try:
            x, y = item
        except (TypeError, ValueError):
            parts = f"{len(item)} parts" if isinstance(item, tuple | list) else type(item).__name__
            raise InputError(
                f"an item of the stream must be a pair (x, y), or a mapping with 'labels', not "
                f"{parts}"
            ) from None
        return x, y
    for name in LABELS:
        if name in item:
            return {key: value for key, value in item.items() if key != name}, item[name]
    raise InputError(
        f"an item of the stream is a mapping with the keys {', '.join(map(repr, item))}, but "
        f"without 'labels': add that key, or give pairs (x, y)"
    )
