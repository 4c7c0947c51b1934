"""The ids and sources of stored examples: validation, lookup and saving."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from recollect.errors import DataError, InputError
from recollect.learner.engine.emptied import stored_numbers
from recollect.train import Fleet

Id = str | int

LONGEST = 1000
SLACK = 1000  # how many entries of examples that have left the memory are tolerated


@final
@dataclass(frozen=True)
class Named:
    """The ids of a batch (None for examples without one), and the source of the batch."""

    ids: list[Id | None]
    source: str | None


def named_as(ids: Any, source: Any, count: int, several: bool) -> Named | None:
    """Check the ids and the source of a batch of `count` examples; None if neither is given.

    >>> named_as(["a", 2], None, 2, several=True)
    Named(ids=['a', 2], source=None)
    """
    if ids is None and source is None:
        return None
    if source is not None and not (isinstance(source, str) and len(source) <= LONGEST):
        raise InputError(
            f"the source must be a text of at most {LONGEST} characters, not {source!r:.60}"
        )
    if ids is None:
        return Named([None] * count, source)
    listed = listed_ids(ids)
    if listed is None:
        if several:
            raise InputError(f"ids must be a list with one id for each of the {count} examples")
        return Named([plain_id(ids)], source)
    if not several:
        raise InputError("ids must be a single id for a single example, not a list")
    if len(listed) != count:
        raise InputError(
            f"there are {len(listed)} ids and {count} examples: give one id for each example"
        )
    return Named([None if each is None else plain_id(each) for each in listed], source)


def ids_in(ids: Any) -> list[Id]:
    """Return the distinct ids in an argument of `forget`: a single id, a list or a set.

    >>> ids_in("ann"), ids_in([3, "bob", 3])
    (['ann'], [3, 'bob'])
    """
    listed = list(ids) if isinstance(ids, set | frozenset) else listed_ids(ids)
    return list(dict.fromkeys(map(plain_id, [ids] if listed is None else listed)))


@final
class Names:
    """The ids and sources of examples, by example number.

    Entries of examples that have left the memory are removed only once there are many of them, but
    they are never saved. Entries of a failed step are overwritten by the next step, which has the
    same example numbers.
    """

    def __init__(self, table: Mapping[int, tuple[Id | None, str | None]] | None = None) -> None:
        self._table = dict(table or {})

    def after(
        self, fleet: Fleet, count: int, named: Named | None, left_out: Mapping[int, str]
    ) -> Names:
        """Add the ids and the source of the batch of the last `count` examples of a fleet."""
        if named is None and not self._table:
            return self
        names = Names() if self is NO_NAMES else self
        ids: Iterable[Id | None] = [None] * count
        source = None
        if named is not None:
            ids = [each for row, each in enumerate(named.ids) if row not in left_out]
            source = named.source
        for number, each in enumerate(ids, fleet.seen - count + 1):
            if each is None and source is None:
                names._table.pop(number, None)
            else:
                names._table[number] = each, source
        if len(names._table) > 2 * fleet.memory.capacity + SLACK:
            names._table = names._stored(fleet)
        return names

    def of(self, number: int) -> tuple[Id | None, str | None]:
        """Return the id and the source of an example."""
        return self._table.get(number, (None, None))

    def without(self, ids: Collection[Id]) -> Names:
        """Return a copy without the examples with these ids, stored or not."""
        return Names({number: each for number, each in self._table.items() if each[0] not in ids})

    def tensors(self, fleet: Fleet | None) -> dict[str, Tensor]:
        """Return the tensors to save: the entries of stored examples as JSON; empty without any."""
        if fleet is None or not self._table:
            return {}
        rows = [[number, *each] for number, each in self._stored(fleet).items()]
        data = json.dumps(rows, separators=(",", ":")).encode()
        return {"table": torch.frombuffer(bytearray(data), dtype=torch.uint8)}

    @classmethod
    def restored(cls, tensors: Mapping[str, Tensor]) -> Names:
        """Restore from `tensors`; files of older versions have none."""
        if "table" not in tensors:
            return NO_NAMES
        rows = json.loads(tensors["table"].numpy().tobytes())
        try:
            return cls({_number(n): (_id_or_none(i), _text_or_none(s)) for n, i, s in rows})
        except (InputError, TypeError, ValueError):
            raise DataError("it is not a complete learner: the ids cannot be read") from None

    def _stored(self, fleet: Fleet) -> dict[int, tuple[Id | None, str | None]]:
        numbers = stored_numbers(fleet).values()
        return {number: self._table[number] for number in numbers if number in self._table}


NO_NAMES = Names()


def listed_ids(ids: Any) -> list[Any] | None:
    """Return the elements of a list, tuple, range, or 1-D array; None for anything else."""
    if isinstance(ids, Tensor):
        ids = ids.detach().cpu().numpy()
    elif not isinstance(ids, np.ndarray | np.generic | str | bytes) and hasattr(ids, "__array__"):
        ids = np.asarray(ids)
    if isinstance(ids, np.ndarray):
        if ids.ndim > 1:
            raise InputError(f"ids must be one-dimensional, not of shape {list(ids.shape)}")
        return list(ids.tolist()) if ids.ndim else None
    return list(ids) if isinstance(ids, list | tuple | range) else None


def plain_id(each: Any) -> Id:
    """Convert an id to `str` or `int`; raise `InputError` if it is not valid."""
    if isinstance(each, np.generic | np.ndarray | Tensor) and each.ndim == 0:
        each = each.item()
    if type(each) is int and -(2**63) <= each < 2**63:
        return each
    if isinstance(each, str) and len(each) <= LONGEST:
        return str(each)
    raise InputError(
        f"an id must be a text of at most {LONGEST} characters or a 64-bit integer, not "
        f"{each!r:.60}"
    )


def _number(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError("not an example number")
    return value


def _id_or_none(value: Any) -> Id | None:
    return None if value is None else plain_id(value)


def _text_or_none(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ValueError("not a text")
    return value
