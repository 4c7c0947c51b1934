"""Notes: the user's own data that are saved with a learner."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self, final

import numpy as np
import torch
from torch import Tensor

from recollect.errors import InputError
from recollect.files import TYPES


@final
class Notes(dict[str, Any]):
    """Plain data and tensors by name, checked when they are assigned.

    Values are what they will be after loading: numbers of NumPy become Python's, tuples lists, and
    the keys of nested dictionaries strings.

    >>> Notes({"row": np.int64(3), "files": ("a", "b")})
    {'row': 3, 'files': ['a', 'b']}
    """

    def __init__(self, given: Any = MappingProxyType({})) -> None:
        if not isinstance(given, Mapping):
            raise InputError(
                f"notes must be a dictionary such as {{'row': 5}}, not {type(given).__name__}; "
                f"assign {{}} to remove them"
            )
        super().__init__({name: _checked(name, value) for name, value in dict(given).items()})

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, _checked(name, value))

    def __ior__(self, other: Any) -> Self:  # type: ignore[override,misc]
        self.update(other)
        return self

    def update(self, *given: Any, **named: Any) -> None:
        """Add or replace several notes."""
        super().update(Notes(dict(*given, **named)))

    def setdefault(self, name: str, value: Any = None) -> Any:
        """Return a note, after adding it if there is none with this name."""
        return super().setdefault(name, _checked(name, value))

    def plain(self) -> dict[str, Any]:
        """Return the notes that are not tensors, checked again: nested data may have changed."""
        return {n: _checked(n, value) for n, value in self.items() if not isinstance(value, Tensor)}

    def tensors(self) -> dict[str, Tensor]:
        """Return the notes that are tensors."""
        return {n: value for n, value in self.items() if isinstance(value, Tensor)}


def _checked(name: object, value: Any) -> Any:
    if not isinstance(name, str):
        raise InputError(f"the names of notes must be strings, not {name!r}")
    if isinstance(value, Tensor):
        plain = value.layout == torch.strided and not (value.is_nested or value.is_meta)
        if plain and value.dtype in TYPES:
            return value
        raise InputError(
            f"notes[{name!r}] cannot be saved: a tensor must be dense, and of a type such as "
            f"float32 or int64, not {str(value.dtype).removeprefix('torch.')}"
        )
    try:
        return json.loads(json.dumps(value, allow_nan=False, default=_number))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"notes[{name!r}] cannot be saved: it must be a tensor or plain JSON data (numbers, "
            f"strings, booleans, None, and lists and dictionaries of them): {error}"
        ) from None


def _number(value: object) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not plain JSON data")
