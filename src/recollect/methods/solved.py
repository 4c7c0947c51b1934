"""A cache of values computed from a method's state, valid until the state changes."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, final

from torch import Tensor

if TYPE_CHECKING:
    from recollect.methods.base import Method

__all__ = ["Solved"]

T = TypeVar("T")


class _Entry(NamedTuple, Generic[T]):
    of: weakref.ref[Tensor]
    version: int
    steps: int
    method: Method
    value: T


@final
class Solved(Generic[T]):
    """Cache of the last value computed from each state, so that predictions do not solve again.

    Results do not depend on the cache, so it is not part of a run's state. A state is identified by
    one of its tensors. It has changed if that tensor was written to, which torch counts in
    `_version`, or if steps were taken, because captured steps write without being counted.

    >>> import torch
    >>> from recollect import SGD
    >>> state, solved, method = torch.zeros(1), Solved[float](), SGD()
    >>> [solved(method, state, steps, lambda: print("computed") or 1.0) for steps in (0, 0, 1)]
    computed
    computed
    [1.0, 1.0, 1.0]
    """

    def __init__(self) -> None:
        self._entries: dict[int, _Entry[T]] = {}

    def __call__(self, method: Method, tensor: Tensor, steps: int, compute: Callable[[], T]) -> T:
        """Return the cached value of the state with this tensor after `steps`, or compute it."""
        key = id(tensor)
        known = self._entries.get(key)
        now = (tensor._version, steps)
        if (
            known is None
            or known.of() is not tensor
            or known.method is not method
            or known[1:3] != now
        ):
            gone = weakref.ref(tensor, lambda _: self._entries.pop(key, None))
            known = _Entry(gone, *now, method, compute())
            self._entries[key] = known
        return known.value
