"""The networks of the paper."""

from recollect.nets.mlp import MLP
from recollect.nets.resnet import ResNet18

__all__ = ["MLP", "ResNet18"]
