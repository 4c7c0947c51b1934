"""The networks of the paper, and a first layer for features of any scale."""

from recollect.nets.mlp import MLP
from recollect.nets.resnet import ResNet18
from recollect.nets.standardise import Standardise

__all__ = ["MLP", "ResNet18", "Standardise"]
