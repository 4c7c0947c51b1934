"""Hyper-parameters: the fields of a method's dataclass, each with a line of help."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, final

from torch import Tensor

if TYPE_CHECKING:
    from recollect.methods.base import Method

__all__ = [
    "Hyperparameter",
    "hyper",
    "hyperparameters",
    "static",
    "symbol",
    "told",
    "untold",
    "varying",
]


@final
@dataclass(frozen=True)
class Hyperparameter:
    """A hyper-parameter of a method.

    One that is `static` is a whole number that changes the shape or the course of a step, so all
    runs of a fleet share it. The others are numbers that may differ from run to run. One that was
    `added` to a method which has results already is left out of a run's identity, and of what is
    printed, as long as it has its default: runs without it are what they were.

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
    """A dataclass field for a hyper-parameter, with its default and a line of help.

    `added` is for one that a method with results gets later: see `Hyperparameter`.

    >>> from recollect import DERpp
    >>> hyperparameters(DERpp)["alpha"].help
    'weight of the squared distance to the stored logits'
    """
    return field(default=default, metadata={"help": help, "added": added})


def hyperparameters(kind: type[Method]) -> dict[str, Hyperparameter]:
    """The hyper-parameters of a method by name, in the order of their declaration.

    A field that is annotated `int` is static.

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


def told(method: Method) -> dict[str, Any]:
    """The hyper-parameters of a method with their values, without added ones at their default.

    >>> from recollect import ER
    >>> told(ER()), told(ER(balanced=True))
    ({}, {'balanced': True})
    """
    known = hyperparameters(type(method)).values()
    values = {each: getattr(method, each.name) for each in known}
    return {
        each.name: value
        for each, value in values.items()
        if not (each.added and not isinstance(value, Tensor) and value == each.default)
    }


def untold(kind: type[Method]) -> dict[str, float]:
    """What added hyper-parameters are, by symbol, where a run's identity leaves them out.

    >>> from recollect import ER
    >>> untold(ER)
    {'balanced': 0}
    """
    known = hyperparameters(kind).values()
    return {each.symbol: each.default for each in known if each.added and each.default is not None}


def static(kind: type[Method]) -> tuple[str, ...]:
    """The names of those that all runs of a fleet share.

    >>> from recollect.methods import MER
    >>> static(MER), varying(MER)
    (('nb', 'inner'), ('beta', 'gamma'))
    """
    return tuple(name for name, each in hyperparameters(kind).items() if each.static)


def varying(kind: type[Method]) -> tuple[str, ...]:
    """The names of those that may differ within a fleet.

    >>> from recollect import DERpp
    >>> varying(DERpp)
    ('alpha', 'beta')
    """
    return tuple(name for name, each in hyperparameters(kind).items() if not each.static)


def symbol(name: str) -> str:
    """A hyper-parameter as papers write it: `lambda` is a keyword in Python, so it is `lambda_`.

    >>> symbol("lambda_"), symbol("alpha")
    ('lambda', 'alpha')
    """
    return name.removesuffix("_")
