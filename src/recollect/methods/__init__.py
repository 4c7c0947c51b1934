"""The methods: one short file each, in the order of the paper's tables."""

from recollect.errors import unknown_name
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
from recollect.methods.method import About, Boundary, Method, Step
from recollect.methods.packnet import PackNet
from recollect.methods.pc import PC
from recollect.methods.pnn import PNN
from recollect.methods.requirements import REQUIREMENTS, requirements
from recollect.methods.sgd import SGD
from recollect.methods.si import SI

__all__ = [
    "AGEM",
    "AGEMR",
    "DER",
    "ER",
    "EWC",
    "FDR",
    "GEM",
    "GSS",
    "HAL",
    "HAT",
    "MER",
    "METHODS",
    "OEWC",
    "PC",
    "PNN",
    "REQUIREMENTS",
    "SGD",
    "SI",
    "About",
    "Boundary",
    "DERpp",
    "ERHybrid",
    "ERKMeans",
    "ERMoF",
    "ERRing",
    "ICaRL",
    "Joint",
    "LwF",
    "Method",
    "PackNet",
    "Step",
    "method",
    "requirements",
]

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
    by_title = {kind.title.lower(): kind for kind in METHODS.values()}
    known = {**by_title, **METHODS}
    if name.lower() not in known:
        raise unknown_name("method", name, METHODS)
    return known[name.lower()]
