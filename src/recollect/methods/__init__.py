"""Continual learning methods, and their lookup by name, including those of other packages."""

from collections.abc import Mapping
from functools import cache

from recollect.core.locations import is_location
from recollect.errors import InputError, unknown_name
from recollect.methods.agem import AGEM, AGEMR
from recollect.methods.base import Classifier, ClosedForm, Method
from recollect.methods.cls_er import CLSER
from recollect.methods.der import DER
from recollect.methods.derpp import DERpp
from recollect.methods.er import ER
from recollect.methods.er_ace import ERACE
from recollect.methods.er_variants import ERHybrid, ERKMeans, ERMoF, ERRing
from recollect.methods.ewc import EWC, OEWC
from recollect.methods.fdr import FDR
from recollect.methods.gem import GEM
from recollect.methods.gss import GSS
from recollect.methods.hal import HAL
from recollect.methods.hat import HAT
from recollect.methods.icarl import ICaRL
from recollect.methods.lwf import LwF
from recollect.methods.mer import MER
from recollect.methods.ncm import NCM
from recollect.methods.options import (
    Hyperparameter,
    hyper,
    hyperparameters,
    omitted_defaults,
    recorded_values,
    static,
    symbol,
    varying,
)
from recollect.methods.packages import Others, located, look_for, name_taken
from recollect.methods.packnet import PackNet
from recollect.methods.pc import PC
from recollect.methods.pnn import PNN
from recollect.methods.ranpac import RanPAC
from recollect.methods.scr import SCR
from recollect.methods.setup import Field, Needs, Replay, Setup, SlotState, Spec, setup_of, state_of
from recollect.methods.sgd import SGD, Joint
from recollect.methods.si import SI
from recollect.methods.slda import SLDA
from recollect.methods.star import STAR
from recollect.methods.step import Step
from recollect.methods.task import Query, Task
from recollect.methods.x_der import XDER

__all__ = [
    "AGEM",
    "AGEMR",
    "CLSER",
    "DER",
    "ER",
    "ERACE",
    "EWC",
    "FDR",
    "GEM",
    "GSS",
    "HAL",
    "HAT",
    "MER",
    "METHODS",
    "NCM",
    "OEWC",
    "PC",
    "PNN",
    "REQUIREMENTS",
    "SCR",
    "SGD",
    "SI",
    "SLDA",
    "STAR",
    "XDER",
    "Classifier",
    "ClosedForm",
    "DERpp",
    "ERHybrid",
    "ERKMeans",
    "ERMoF",
    "ERRing",
    "Field",
    "Hyperparameter",
    "ICaRL",
    "Joint",
    "LwF",
    "Method",
    "Needs",
    "PackNet",
    "Query",
    "RanPAC",
    "Replay",
    "Setup",
    "SlotState",
    "Spec",
    "Step",
    "Task",
    "check_name",
    "every_method",
    "hyper",
    "hyperparameters",
    "method",
    "omitted_defaults",
    "others",
    "recorded_values",
    "requirements",
    "setup_of",
    "state_of",
    "static",
    "symbol",
    "title_of",
    "varying",
]

REQUIREMENTS = ("constant memory", "no task boundaries", "online learning", "no test time oracle")

# The built-in methods, in the order of the paper's tables.
METHODS: dict[str, type[Method]] = {
    m.name: m
    for m in (
        Joint, SGD, OEWC, EWC, SI, LwF, PC, PNN, PackNet, HAT, ER, MER, GEM, AGEM, AGEMR, ICaRL,
        FDR, GSS, HAL, DER, DERpp, ERRing, ERKMeans, ERMoF, ERHybrid,
        ERACE, CLSER, XDER, SCR, STAR, NCM, SLDA, RanPAC,
    )
}  # fmt: skip


# Methods that were loaded by location in this process.
_LOCATED: dict[str, type[Method]] = {}


def method(name: str) -> type[Method]:
    """Find a method by its name, title or location (`file.py:Class`, `module:Class`).

    >>> method("derpp").title, method("DER++").name
    ('DER++', 'derpp')
    """
    own = _find(name, METHODS)
    if own is not None:
        return own  # without loading other packages
    if is_location(name):
        kind = located(name, every_method(), others().packages)
        _LOCATED[kind.name] = kind
        return kind
    found = _find(name, {**others().methods, **_LOCATED})
    if found is None:
        if name.endswith(".py"):
            raise InputError(f"{name!r} is a file: name the class in it too, as in {name}:MyMethod")
        error = unknown_name("method", name, every_method())
        raise InputError("; ".join([str(error), *others().problems]))
    return found


def every_method() -> dict[str, type[Method]]:
    """All methods by name: built-in ones first, then those of other packages and locations.

    >>> {"er", "derpp"} <= set(every_method())
    True
    """
    return {**METHODS, **others().methods, **_LOCATED}


def check_name(kind: type[Method]) -> None:
    """Refuse a class with the name or title of another method of the library.

    That of an installed package is allowed: a copy under development is often the same method, and
    tables state its code.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Mine(ER):
    ...     title = "Mine"
    >>> check_name(Mine)
    Traceback (most recent call last):
    recollect.errors.InputError: Mine cannot be used: there is already a method with the name er ...
    """
    if METHODS.get(kind.name) is kind:
        return
    if fault := name_taken(kind, METHODS):
        raise InputError(
            f"{kind.__name__} cannot be used: {fault}, and their results would be mixed up: choose "
            f"another name and title"
        )


@cache
def others() -> Others:
    """The methods of other installed packages; loaded once.

    >>> set(others().methods) & set(METHODS)  # a name of ours stays ours
    set()
    """
    return look_for(METHODS)


def title_of(name: str) -> str:
    """The title of a method in tables; the name itself if the method is unknown.

    >>> title_of("derpp"), title_of("mine")
    ('DER++', 'mine')
    """
    known = METHODS.get(name) or _LOCATED.get(name) or others().methods.get(name)
    return known.title if known else name


def requirements(kind: type[Method]) -> dict[str, bool]:
    """Which of the paper's requirements for general continual learning a method meets.

    >>> from recollect.methods import PNN, DERpp
    >>> all(requirements(DERpp).values())
    True
    >>> [name for name, met in requirements(PNN).items() if met]
    ['online learning']
    """
    needs = kind.needs
    met = (
        not (needs.grows or needs.all_data),
        not needs.boundaries,
        not (needs.revisits or needs.all_data),
        not needs.task_id,
    )
    return dict(zip(REQUIREMENTS, met, strict=True))


def _find(name: str, known: Mapping[str, type[Method]]) -> type[Method] | None:
    by_title = {kind.title.lower(): kind for kind in known.values()}
    return {**by_title, **known}.get(name.lower())
