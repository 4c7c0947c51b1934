"""Every method by name: the library's own, and those of other packages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from recollect.errors import InputError, unknown_name
from recollect.methods.agem import AGEM, AGEMR
from recollect.methods.der import DER
from recollect.methods.derpp import DERpp
from recollect.methods.er import ER
from recollect.methods.er_variants import ERHybrid, ERKMeans, ERMoF, ERRing
from recollect.methods.ewc import EWC, OEWC
from recollect.methods.fdr import FDR
from recollect.methods.gem import GEM
from recollect.methods.gss import GSS
from recollect.methods.hal import HAL
from recollect.methods.hat import HAT
from recollect.methods.icarl import ICaRL
from recollect.methods.joint import Joint
from recollect.methods.lwf import LwF
from recollect.methods.mer import MER
from recollect.methods.method import Method
from recollect.methods.packages import Others, look_for
from recollect.methods.packnet import PackNet
from recollect.methods.pc import PC
from recollect.methods.pnn import PNN
from recollect.methods.sgd import SGD
from recollect.methods.si import SI

__all__ = ["METHODS", "every_method", "method", "others", "title_of"]

# The library's own, in the order of the paper's tables.
METHODS: dict[str, type[Method]] = {
    m.name: m
    for m in (
        Joint, SGD, OEWC, EWC, SI, LwF, PC, PNN, PackNet, HAT, ER, MER, GEM, AGEM, AGEMR, ICaRL,
        FDR, GSS, HAL, DER, DERpp, ERRing, ERKMeans, ERMoF, ERHybrid,
    )
}  # fmt: skip


def method(name: str) -> type[Method]:
    """The method of that name, or of that title.

    >>> method("derpp").title, method("DER++").name
    ('DER++', 'derpp')
    """
    own = _find(name, METHODS)
    if own is not None:
        return own  # other packages are not looked for in vain
    found = _find(name, others().methods)
    if found is None:
        error = unknown_name("method", name, every_method())
        raise InputError("; ".join([str(error), *others().problems]))
    return found


def every_method() -> dict[str, type[Method]]:
    """All methods by name: the library's own first, then those of other packages.

    >>> {"er", "derpp"} <= set(every_method())
    True
    """
    return {**METHODS, **others().methods}


@cache
def others() -> Others:
    """What other packages offer; looked for once.

    >>> set(others().methods) & set(METHODS)  # a name of ours stays ours
    set()
    """
    return look_for(METHODS)


def title_of(name: str) -> str:
    """What a method is called in tables; its name, if nothing here knows it.

    >>> title_of("derpp"), title_of("mine")
    ('DER++', 'mine')
    """
    known = METHODS.get(name) or others().methods.get(name)
    return known.title if known else name


def _find(name: str, known: Mapping[str, type[Method]]) -> type[Method] | None:
    by_title = {kind.title.lower(): kind for kind in known.values()}
    return {**by_title, **known}.get(name.lower())
