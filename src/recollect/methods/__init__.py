"""The methods: one short file each, in the order of the paper's tables."""

from recollect.methods.agem import AGEM, AGEMR
from recollect.methods.boundary import About, Boundary
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
from recollect.methods.packnet import PackNet
from recollect.methods.pc import PC
from recollect.methods.pnn import PNN
from recollect.methods.registry import METHODS, every_method, method, others, title_of
from recollect.methods.requirements import REQUIREMENTS, requirements
from recollect.methods.sgd import SGD
from recollect.methods.si import SI
from recollect.methods.step import Step

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
    "every_method",
    "method",
    "others",
    "requirements",
    "title_of",
]
