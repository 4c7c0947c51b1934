"""The networks of the paper."""

from recollect.nets.mlp import MLP

__all__ = ["MLP"]
