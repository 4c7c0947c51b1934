"""Examples of several tensors: mappings and tuples that a learner is given, as packed rows."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from recollect.core.packing import Packing
from recollect.errors import InputError
from recollect.learner.examples import Kind, batch_of, check_finite, tensor_of

__all__ = ["as_batch", "first_of", "first_rows", "has_parts", "pair_of", "parts_of", "query"]

LABELS = ("labels", "label")  # the names that data sets of texts have for them


def has_parts(x: object, network: nn.Module) -> bool:
    """Whether x is not one tensor but those that a network takes as several arguments.

    A mapping always is. A tuple is if the network's `forward` needs two arguments or more, and
    so is a list, which a DataLoader makes of tuples; else they are the numbers of one tensor.

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
    except (TypeError, ValueError):  # it does not say what it takes
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in known if p.kind in positional and p.default is inspect.Parameter.empty]
    return len(needed) > 1


def parts_of(x: Any) -> dict[str, Tensor]:
    """The tensors of a mapping or a tuple by their names or positions; refused by name."""
    named = isinstance(x, Mapping)
    given = dict(x) if named else {str(number): part for number, part in enumerate(x)}
    if not given:
        raise InputError("an example must have at least one tensor, and this one has none")
    found: dict[str, Tensor] = {}
    for name, part in given.items():
        if not isinstance(name, str):
            raise InputError(
                f"an example has the field {name!r}: the names of its fields are those of the "
                f"network's arguments, so they must be texts"
            )
        try:
            found[name] = tensor_of(part, masks=True)
        except InputError as error:
            raise InputError(f"the {'field' if named else 'input'} {name!r}: {error}") from None
    home = next(iter(found.values())).device
    return {name: tensor.to(home) for name, tensor in found.items()}


def first_of(parts: Mapping[str, Tensor], kind: Kind | None) -> tuple[Tensor, Kind | None]:
    """The tensor with the most axes, by which a batch is told from one example, and its kind."""
    name = max(parts, key=lambda each: parts[each].dim())
    packing = kind.packing if kind else None
    known = {part.name: Kind(part.shape, part.dtype) for part in packing.parts} if packing else {}
    return parts[name], known.get(name)


def as_batch(
    parts: Mapping[str, Tensor], count: int | None, *, named: bool
) -> tuple[Tensor, Packing]:
    """The rows `[n, words]` of `count` examples, or of one (None), and their packing."""
    if count is None:
        parts = {name: tensor.unsqueeze(0) for name, tensor in parts.items()}
    for name, tensor in parts.items():
        what = f"the {'field' if named else 'input'} {name!r}"
        if not tensor.dim() or len(tensor) != (count or 1):
            found = f"{len(tensor)} examples" if tensor.dim() else "no batch of examples"
            raise InputError(f"there are {count} labels, and {what} has {found}")
        if not tensor.numel():
            raise InputError(f"{what} is empty: its shape is {list(tensor.shape)}")
    packing = Packing.of(parts, named=named)
    return packing.pack(parts), packing


def query(x: Any, kind: Kind, device: torch.device) -> tuple[Tensor, bool]:
    """Examples to predict as a batch `[n, ...]` on a device, and whether they were a batch."""
    packing = kind.packing
    if packing is None:
        if isinstance(x, Mapping):
            kind.check(torch.empty(0), Packing(()))
        return kind.batch(tensor_of(x), device)
    if not isinstance(x, Mapping if packing.named else list | tuple):
        packing.check(None)
    parts = parts_of(x)
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


def first_rows(x: Any, count: int | None, network: nn.Module) -> tuple[Tensor, Packing | None]:
    """The first examples that come, as a batch `[n, ...]` of `count` or of one (None)."""
    if not has_parts(x, network):
        batch = batch_of(tensor_of(x), count).cpu()
        check_finite(batch)
        return batch, None
    rows, packing = as_batch(parts_of(x), count, named=isinstance(x, Mapping))
    _check_reals(rows, packing)
    return rows.cpu(), packing


def _check_reals(rows: Tensor, packing: Packing) -> None:
    reals = packing.floats(rows)
    if reals is not None:
        check_finite(reals)


def pair_of(item: Any) -> tuple[Any, Any]:
    """The example and the label of an item of a stream; a mapping may have both."""
    if not isinstance(item, Mapping):
        x, y = item
        return x, y
    for name in LABELS:
        if name in item:
            return {key: value for key, value in item.items() if key != name}, item[name]
    raise InputError(
        f"an item of the stream is a mapping with {', '.join(map(repr, item))}, and no 'labels' "
        f"among them: give pairs (x, y)"
    )
