"""Hyper-parameters of methods: dataclass fields with a line of help, and their validation."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, final

from torch import Tensor

from recollect.errors import InputError

if TYPE_CHECKING:
    from recollect.methods.base import Method


@final
@dataclass(frozen=True)
class Hyperparameter:
    """A hyper-parameter of a method.

    A `static` hyper-parameter is an integer that changes shapes or control flow of a step, so it is
    the same for all runs of a fleet. Others are numbers that may differ between runs. `added` marks
    a hyper-parameter that was introduced after results had been stored: at its default, it is
    omitted from a run's identity and from its repr, so that earlier results remain valid.

    >>> Hyperparameter("lambda_", 1.0, "weight of the penalty", static=False).symbol
    'lambda'
    """

    name: str
    default: float | None
    help: str
    static: bool
    added: bool = False

    @property
    def symbol(self) -> str:
        """The name in papers and on the command line."""
        return symbol(self.name)


def hyper(default: float, help: str, added: bool = False) -> Any:  # noqa: A002 - as in argparse
    """Declare a hyper-parameter: a dataclass field with a default and a line of help.

    `added` marks one that was introduced after results had been stored; see `Hyperparameter`.

    >>> from recollect import DERpp
    >>> hyperparameters(DERpp)["alpha"].help
    'weight of the squared distance to the stored logits'
    """
    return field(default=default, metadata={"help": help, "added": added})


def hyperparameters(kind: type[Method]) -> dict[str, Hyperparameter]:
    """The hyper-parameters of a method by name, in the order of their declaration.

    A field annotated `int` is static.

    >>> from recollect.methods import GSS
    >>> [(name, each.static) for name, each in hyperparameters(GSS).items()]
    [('gmbs', True), ('nb', True), ('whole', True)]
    """
    return {
        each.name: Hyperparameter(
            each.name,
            None if each.default is MISSING else each.default,
            each.metadata.get("help", ""),
            each.type in ("int", int),
            each.metadata.get("added", False),
        )
        for each in fields(kind)
    }


def recorded_values(method: Method) -> dict[str, Any]:
    """The hyper-parameters of a method with their values, without added ones at their default.

    >>> from recollect import ER
    >>> recorded_values(ER()), recorded_values(ER(balanced=True))
    ({}, {'balanced': True})
    """
    known = hyperparameters(type(method)).values()
    values = {each: getattr(method, each.name) for each in known}
    return {
        each.name: value
        for each, value in values.items()
        if not (each.added and not isinstance(value, Tensor) and value == each.default)
    }


def omitted_defaults(kind: type[Method]) -> dict[str, float]:
    """The defaults of `added` hyper-parameters, by symbol, which a run's identity may omit.

    >>> from recollect import ER
    >>> omitted_defaults(ER)
    {'balanced': 0}
    """
    known = hyperparameters(kind).values()
    return {each.symbol: each.default for each in known if each.added and each.default is not None}


def static(kind: type[Method]) -> tuple[str, ...]:
    """The names of the hyper-parameters that all runs of a fleet share.

    >>> from recollect.methods import MER
    >>> static(MER), varying(MER)
    (('nb', 'inner'), ('beta', 'gamma'))
    """
    return tuple(name for name, each in hyperparameters(kind).items() if each.static)


def varying(kind: type[Method]) -> tuple[str, ...]:
    """The names of the hyper-parameters that may differ between the runs of a fleet.

    >>> from recollect import DERpp
    >>> varying(DERpp)
    ('alpha', 'beta')
    """
    return tuple(name for name, each in hyperparameters(kind).items() if not each.static)


def symbol(name: str) -> str:
    """The name of a hyper-parameter in papers: without the trailing underscore of `lambda_`.

    >>> symbol("lambda_"), symbol("alpha")
    ('lambda', 'alpha')
    """
    return name.removesuffix("_")


def check_hyperparameters(method: Method, *, tensors: bool = False) -> None:
    """Raise an `InputError` for values that are not numbers, not finite or negative.

    With `tensors`, those of a fleet are accepted.

    >>> from recollect import DERpp
    >>> DERpp(alpha=-0.1)  # which calls it
    Traceback (most recent call last):
    recollect.errors.InputError: alpha of DER++ must be at least 0 and finite, not -0.1
    """
    for name, each in hyperparameters(type(method)).items():
        value, title = getattr(method, name), getattr(method, "title", type(method).__name__)
        if not tensors or each.static or not isinstance(value, Tensor):
            _check(f"{each.symbol} of {title}", each, value)


def _check(what: str, declared: Hyperparameter, value: object) -> None:
    if not declared.static:
        number = _number(value)
        if number is None:
            raise InputError(f"{what} must be a number, not {value!r}")
        if not math.isfinite(number) or number < 0:
            raise InputError(f"{what} must be at least 0 and finite, not {value!r}")
    elif declared.default == 0:  # a flag that is off by default
        if _number(value) not in (0, 1):
            raise InputError(f"{what} must be 1 (on) or 0 (off), not {value!r}")
    elif (number := _number(value)) is None or number < 1 or number % 1:
        raise InputError(f"{what} must be a whole number of at least 1, not {value!r}")


def _number(value: object) -> float | None:
    """Convert a Python, numpy or one-element torch number to float; None for anything else."""
    if isinstance(value, str | bytes) or (isinstance(value, Tensor) and value.numel() != 1):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
