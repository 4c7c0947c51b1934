"""The methods: one short file each, in the order of the paper's tables."""

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
from recollect.methods.options import (
    Hyperparameter,
    hyper,
    hyperparameters,
    static,
    symbol,
    varying,
)
from recollect.methods.packnet import PackNet
from recollect.methods.pc import PC
from recollect.methods.pnn import PNN
from recollect.methods.query import Query
from recollect.methods.registry import METHODS, every_method, method, others, title_of
from recollect.methods.requirements import REQUIREMENTS, requirements
from recollect.methods.setup import Field, Needs, Replay, Setup, Spec, setup_of
from recollect.methods.sgd import SGD
from recollect.methods.si import SI
from recollect.methods.step import Step
from recollect.methods.task import Task

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
    "Replay",
    "Setup",
    "Spec",
    "Step",
    "Task",
    "every_method",
    "hyper",
    "hyperparameters",
    "method",
    "others",
    "requirements",
    "setup_of",
    "static",
    "symbol",
    "title_of",
    "varying",
]
