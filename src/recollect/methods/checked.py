"""Validate hyper-parameters before training."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from torch import Tensor

from recollect.errors import InputError
from recollect.methods.options import Hyperparameter, hyperparameters

if TYPE_CHECKING:
    from recollect.methods.base import Method

__all__ = ["check_hyperparameters"]


def check_hyperparameters(method: Method) -> None:
    """Raise an `InputError` for values that are not numbers, not finite or negative.

    >>> from recollect import DERpp
    >>> check_hyperparameters(DERpp(alpha=0.1))
    >>> check_hyperparameters(DERpp(alpha=-0.1))
    Traceback (most recent call last):
    recollect.errors.InputError: alpha of DER++ must be at least 0 and finite, not -0.1
    """
    for name, each in hyperparameters(type(method)).items():
        _check(f"{each.symbol} of {method.title}", each, getattr(method, name))


def _check(what: str, declared: Hyperparameter, value: object) -> None:
    number = _number(value)
    if number is None:
        raise InputError(f"{what} must be a number, not {value!r}")
    if not declared.static:
        if not math.isfinite(number) or number < 0:
            raise InputError(f"{what} must be at least 0 and finite, not {value!r}")
        return
    if declared.default == 0 and number not in (0, 1):  # a flag that is off by default
        raise InputError(f"{what} must be 1 (on) or 0 (off), not {value!r}")
    least = 0 if declared.default == 0 else 1
    if not math.isfinite(number) or number != int(number) or number < least:
        raise InputError(f"{what} must be a whole number of at least {least}, not {value!r}")


def _number(value: object) -> float | None:
    """Convert a Python, numpy or one-element torch number to float; None for anything else."""
    if isinstance(value, str | bytes) or (isinstance(value, Tensor) and value.numel() != 1):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
