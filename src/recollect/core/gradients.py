"""Several gradients of every run, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from recollect.core.network import Network
from recollect.core.weights import Gradient, Weights

__all__ = ["Gradients"]


class Gradients:
    """T gradients of each of K runs; conceptually a matrix with T rows for every run.

    >>> one, two = (Gradient({"a": torch.tensor([[1.0, n]])}) for n in (2.0, 3.0))
    >>> both = Gradients.beside([one, two])
    >>> both.dots().tolist()
    [[[5.0, 7.0], [7.0, 10.0]]]
    >>> both.mixed(torch.tensor([[1.0, -1.0]])).named()
    {'a': tensor([[ 0., -1.]])}
    """

    __slots__ = ("_stacks",)

    def __init__(self, stacks: Mapping[str, Tensor]) -> None:
        self._stacks = dict(stacks)  # each [T, K, *shape]

    @classmethod
    def beside(cls, gradients: Sequence[Gradient]) -> Gradients:
        """These gradients of the same parameters, one beside the other."""
        rows = [gradient.dense().named() for gradient in gradients]
        return cls({name: torch.stack([row[name] for row in rows]) for name in rows[0]})

    @classmethod
    def by_part(cls, network: Network, loss: Tensor, sizes: Sequence[int]) -> Gradients:
        """What every part of a pass adds to the gradient of a loss `[K]`; all layers are dense.

        The examples of the pass came in parts of these sizes.
        """
        stacks: dict[str, Tensor] = {}
        for name, product in network.products(loss):
            inputs, errors = (torch.split_with_sizes(side, list(sizes), 1) for side in product)
            runs, _, out = product.errors.shape
            size = (product.inputs.shape[2], out)
            weight, bias = (
                stacks.setdefault(f"{name}.{part}", loss.new_zeros(len(sizes), runs, *shape))
                for part, shape in (("weight", size), ("bias", (out,)))
            )
            for part, (read, error) in enumerate(zip(inputs, errors, strict=True)):
                weight[part].baddbmm_(read.mT, error)
                bias[part].add_(error.sum(1))
        return cls({name: stack for name, stack in stacks.items() if name in network.trained})

    def dots(self) -> Tensor:
        """The inner products of every run's gradients with each other, `[K, T, T]`.

        They are in float64: rounded further, those of many gradients that are nearly alike would
        no longer be the inner products of any vectors.
        """
        rows = (stack.flatten(2).transpose(0, 1).double() for stack in self._stacks.values())
        return torch.stack([row @ row.mT for row in rows]).sum(0)

    def mixed(self, shares: Tensor) -> Weights:
        """The sum of every run's gradients, each times its share `[K, T]`."""
        return Weights({name: _mixed(stack, shares) for name, stack in self._stacks.items()})


def _mixed(stack: Tensor, shares: Tensor) -> Tensor:
    rows = stack.flatten(2).transpose(0, 1)
    return (shares.to(rows.dtype).unsqueeze(1) @ rows).view(stack.shape[1:])
