"""The weights of a fleet: one object, one row per run, with arithmetic per run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor

from recollect.core.dense import Product

__all__ = ["Gradient", "Weights"]

ALIGNED = 64


class Weights:
    """The parameters (or gradients) of K networks; conceptually a matrix with one row per run.

    Only this class knows the layout: every parameter is stacked on its own, `[K, *shape]`, which
    is how batched matrix products take it. Runs that are computed one by one have their rows
    `apart`, each at an aligned address.

    >>> w = Weights({"a": torch.ones(2, 3), "b": torch.zeros(2, 4, 5)})
    >>> w.runs, w.numel
    (2, 23)
    >>> w.dot(w)
    tensor([3., 3.])
    >>> w.add_(w, torch.tensor([1.0, -1.0])).dot(w)
    tensor([12.,  0.])
    """

    __slots__ = ("_tensors",)

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self._tensors = dict(tensors)

    @classmethod
    def stack(
        cls,
        rows: Sequence[Mapping[str, Tensor]],
        device: torch.device | str = "cpu",
        *,
        apart: bool = False,
        channels_last: bool = False,
    ) -> Weights:
        """The fleet whose run k has the parameters `rows[k]`."""
        stacked = {
            name: torch.stack([row[name].detach() for row in rows]).to(device) for name in rows[0]
        }
        if apart:
            stacked = {name: _apart(tensor, channels_last) for name, tensor in stacked.items()}
        return cls(stacked)

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return next(iter(self._tensors.values())).shape[0]

    @property
    def numel(self) -> int:
        """How many numbers one run has."""
        return sum(t[0].numel() for t in self._tensors.values())

    def named(self) -> dict[str, Tensor]:
        """The stacked parameters by name, each `[K, *shape]`."""
        return dict(self._tensors)

    def row(self, run: int) -> Weights:
        """The weights of one run, as a fleet of one in the same memory."""
        return Weights({name: tensor[run : run + 1] for name, tensor in self._tensors.items()})

    def only(self) -> dict[str, Tensor]:
        """The parameters of a fleet of one, without the run axis."""
        return {name: tensor.squeeze(0) for name, tensor in self._tensors.items()}

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._tensors.values())

    def map(self, function: Callable[..., Tensor], *others: Weights) -> Weights:
        """The weights that `function` makes of each parameter and its counterparts in `others`."""
        return Weights(
            {
                name: function(tensor, *(other._tensors[name] for other in others))
                for name, tensor in self._tensors.items()
            }
        )

    def snapshot(self) -> Weights:
        """A copy that no later step changes."""
        return self.map(torch.clone)

    def dot(self, other: Weights) -> Tensor:
        """The inner product of every run, `[K]`."""
        products = self.map(lambda a, b: (a * b).flatten(1).sum(1), other)
        return torch.stack(list(products)).sum(0)

    def lerp_from(self, start: Weights, share: Tensor) -> None:
        """Become `start + share * (self - start)` in place, with one `share` per run, `[K]`."""
        for name, mine in self._tensors.items():
            factor = share.view(-1, *[1] * (mine.dim() - 1))
            mine.copy_(torch.lerp(start._tensors[name], mine, factor))

    def add_(self, other: Weights | Gradient, scale: Tensor) -> Weights:
        """Add `scale[k]` times run k of `other` to run k, in place."""
        theirs = other.named() if isinstance(other, Weights) else other.parts
        plain = {name: part for name, part in theirs.items() if isinstance(part, Tensor)}
        for name, part in theirs.items():
            if isinstance(part, Product):
                part.add_to(self._tensors[name], scale)
        if self.runs == 1 and plain:
            scaled = torch._foreach_mul(list(plain.values()), scale.squeeze(0))
            torch._foreach_add_([self._tensors[name] for name in plain], scaled)
            return self
        for name, part in plain.items():
            mine = self._tensors[name]
            mine.addcmul_(part, scale.view(-1, *[1] * (mine.dim() - 1)))
        return self


def _apart(stacked: Tensor, channels_last: bool) -> Tensor:
    """The same numbers, with the row of every run at an aligned address of its own."""
    runs, *shape = stacked.shape
    size = math.prod(shape)
    room = stacked.new_zeros(runs, math.ceil(size / ALIGNED) * ALIGNED)[:, :size]
    if channels_last and len(shape) == 4:
        out, channels, height, width = shape
        rows = room.view(runs, out, height, width, channels).permute(0, 1, 4, 2, 3)
    else:
        rows = room.view(runs, *shape)
    return rows.copy_(stacked)


class Gradient:
    """The gradients of K runs: those of dense layers as products, the others as they are.

    Parameters that are frozen or that the loss does not depend on have no part in it.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: Mapping[str, Tensor | Product]) -> None:
        self.parts = dict(parts)

    def dot(self, other: Gradient) -> Tensor:
        """The inner product of every run, `[K]`, without writing products out if they are thin."""
        common = sorted(self.parts.keys() & other.parts.keys())
        return torch.stack([_dot(self.parts[n], other.parts[n]) for n in common]).sum(0)

    def dense(self) -> Weights:
        """The gradients as weights of the same kind, for arithmetic on them."""
        return Weights(
            {
                n: part.dense() if isinstance(part, Product) else part
                for n, part in self.parts.items()
            }
        )


def _dot(a: Tensor | Product, b: Tensor | Product) -> Tensor:
    if isinstance(a, Product) and isinstance(b, Product):
        return a.dot(b)
    left, right = (part.dense() if isinstance(part, Product) else part for part in (a, b))
    return (left * right).flatten(1).sum(1)
