"""The weights of a fleet, their gradients and a method's state: one row per run."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.core.dense import Product, dense
from recollect.errors import InputError

ALIGNED = 64
SMALL = 2**18  # elements of all runs, 1 MiB in float32


@dataclass(slots=True, eq=False, repr=False)
class Weights:
    """The parameters (or gradients) of K networks; conceptually a matrix with one row per run.

    Every parameter is stacked over the runs, `[K, *shape]`, as batched matrix products need it.
    Runs that are computed one after the other have their rows `apart`, each at an aligned address.

    >>> w = Weights({"a": torch.ones(2, 3), "b": torch.zeros(2, 4, 5)})
    >>> w.runs, w.numel
    (2, 23)
    >>> w.dot(w)
    tensor([3., 3.])
    >>> w.add_(w, torch.tensor([1.0, -1.0])).dot(w)
    tensor([12.,  0.])
    """

    parts: Mapping[str, Tensor]

    @classmethod
    def stack(
        cls,
        rows: Sequence[Mapping[str, Tensor]],
        device: torch.device | str = "cpu",
        *,
        apart: bool = False,
        channels_last: bool = False,
    ) -> Weights:
        """Stack the parameters `rows[k]` of every run k."""
        stacked = {
            name: torch.stack([row[name].detach() for row in rows]).to(device) for name in rows[0]
        }
        if apart:
            stacked = {name: _apart(tensor, channels_last) for name, tensor in stacked.items()}
        return cls(stacked)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return next(iter(self.parts.values())).shape[0]

    @property
    def numel(self) -> int:
        """The number of elements of one run."""
        return sum(t[0].numel() for t in self.parts.values())

    def named(self) -> dict[str, Tensor]:
        """The stacked parameters by name, each `[K, *shape]`."""
        return dict(self.parts)

    def row(self, run: int) -> Weights:
        """A view of the weights of one run, with a run axis of length 1."""
        return Weights({name: tensor[run : run + 1] for name, tensor in self.parts.items()})

    def only(self) -> dict[str, Tensor]:
        """The parameters of a fleet of one, without the run axis."""
        return {name: tensor.squeeze(0) for name, tensor in self.parts.items()}

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.parts.values())

    def map(self, function: Callable[..., Tensor], *others: Weights) -> Weights:
        """Apply a function to each parameter and its counterparts in `others`."""
        return Weights(
            {
                name: function(tensor, *(other.parts[name] for other in others))
                for name, tensor in self.parts.items()
            }
        )

    def dense(self) -> Weights:
        """The weights themselves, for functions of a `Gradient` or of weights."""
        return self

    def times(self, factor: Tensor) -> Weights:
        """The weights of every run, multiplied by its factor `[K]`."""
        return self.map(lambda part: part * column(factor, part))

    def snapshot(self) -> Weights:
        """An independent copy."""
        return self.map(torch.clone)

    def dot(self, other: Weights) -> Tensor:
        """The inner product of every run, `[K]`."""
        products = self.map(lambda a, b: (a * b).reshape(len(a), -1).sum(1), other)
        return torch.stack(list(products)).sum(0)

    def lerp_from(self, start: Weights, share: Tensor) -> None:
        """Become `start + share * (self - start)`, in place, with one `share` per run, `[K]`."""
        for name, mine in self.parts.items():
            mine.copy_(torch.lerp(start.parts[name], mine, column(share, mine)))

    def add_(self, other: Weights | Gradient, scale: Tensor) -> Weights:
        """Add `scale[k]` times run k of `other` to run k, in place."""
        plain = {name: part for name, part in other.parts.items() if isinstance(part, Tensor)}
        for name, part in other.parts.items():
            if isinstance(part, Product):
                part.add_to(self.parts[name], scale)
        if self.runs == 1 and plain:
            mine, theirs = [self.parts[name] for name in plain], list(plain.values())
            # Faster on a CPU, but rounded once; in float64, results stay as in tests/golden.
            if mine[0].dtype == torch.float32 and not mine[0].is_cuda:
                torch._foreach_addcmul_(mine, theirs, [scale] * len(mine))
            else:
                torch._foreach_add_(mine, torch._foreach_mul(theirs, scale.squeeze(0)))
            return self
        for name, part in plain.items():
            self.parts[name].addcmul_(part, column(scale, part))
        return self


def column(values: Tensor, like: Tensor) -> Tensor:
    """Reshape values `[K]` to broadcast with a tensor `[K, ...]`."""
    return values.view(-1, *[1] * (like.dim() - 1))


def _apart(stacked: Tensor, channels_last: bool) -> Tensor:
    runs, *shape = stacked.shape
    size = math.prod(shape)
    room = stacked.new_zeros(runs, math.ceil(size / ALIGNED) * ALIGNED)[:, :size]
    if channels_last and len(shape) == 4:
        out, channels, height, width = shape
        rows = room.view(runs, out, height, width, channels).permute(0, 1, 4, 2, 3)
    else:
        rows = room.view(runs, *shape)
    return rows.copy_(stacked)


@dataclass(slots=True, eq=False, repr=False)
class Gradient:
    """The gradients of K runs, as tensors or, for `Dense` layers, as `Product`s.

    Frozen parameters and parameters that the loss does not depend on are omitted.
    """

    parts: Mapping[str, Tensor | Product]

    def dot(self, other: Gradient) -> Tensor:
        """The inner product of every run, `[K]`; thin products are not expanded."""
        common = sorted(self.parts.keys() & other.parts.keys())
        return torch.stack([_dot(self.parts[n], other.parts[n]) for n in common]).sum(0)

    def norm(self) -> Tensor:
        """The norm of every run's gradient, `[K]`; thin products are not expanded."""
        norms = self.part_norms()
        return self.dot(self).sqrt() if norms is None else joint_norm(norms)

    def part_norms(self) -> Sequence[Tensor] | None:
        """The norms of the parts, each `[]`; None for several runs, or if there are products."""
        parts = [part for part in self.parts.values() if isinstance(part, Tensor)]
        if len(parts) < len(self.parts) or not parts or len(parts[0]) > 1:
            return None
        found: Sequence[Tensor] = torch._foreach_norm(parts)
        return found

    def expanded(self) -> Gradient:
        """Expand small products to tensors: a norm and a step then take fewer operations."""
        small = {n: p for n, p in self.parts.items() if isinstance(p, Product) and p.numel <= SMALL}
        return Gradient({**self.parts, **{name: part.dense() for name, part in small.items()}})

    def dense(self) -> Weights:
        """The gradients as `Weights` of plain tensors."""
        return Weights({name: dense(part) for name, part in self.parts.items()})


def joint_norm(norms: Sequence[Tensor]) -> Tensor:
    """The norm `[1]` of a gradient whose parts have these norms, each `[]`."""
    norm: Tensor = torch.linalg.vector_norm(torch.stack(list(norms)))
    return norm.view(1)


def _dot(a: Tensor | Product, b: Tensor | Product) -> Tensor:
    if isinstance(a, Product) and isinstance(b, Product):
        return a.dot(b)
    product = dense(a) * dense(b)
    return product.reshape(len(product), -1).sum(1)


@dataclass(slots=True, eq=False, repr=False)
class Gradients:
    """T gradients of each of K runs; conceptually a matrix with T rows for every run.

    >>> one, two = (Gradient({"a": torch.tensor([[1.0, n]])}) for n in (2.0, 3.0))
    >>> both = Gradients.beside([one, two])
    >>> both.dots().tolist()
    [[[5.0, 7.0], [7.0, 10.0]]]
    >>> both.mixed(torch.tensor([[1.0, -1.0]])).named()
    {'a': tensor([[ 0., -1.]])}
    """

    _stacks: Mapping[str, Tensor]  # each [T, K, *shape]

    @classmethod
    def beside(cls, gradients: Sequence[Gradient]) -> Gradients:
        """Stack gradients of the same parameters."""
        rows = [gradient.dense().parts for gradient in gradients]
        return cls({name: torch.stack([row[name] for row in rows]) for name in rows[0]})

    @classmethod
    def by_part(
        cls, products: Iterable[tuple[str, Product]], sizes: Sequence[int], trained: Container[str]
    ) -> Gradients:
        """Compute the gradients of `Dense` layers for every part of a pass, from their products.

        `sizes` are the numbers of examples in the parts.
        """
        stacks: dict[str, Tensor] = {}
        for name, product in products:
            inputs, errors = (torch.split_with_sizes(side, list(sizes), 1) for side in product)
            runs, _, out = product.errors.shape
            size = (product.inputs.shape[2], out)
            weight, bias = (
                stacks.setdefault(f"{name}.{part}", errors[0].new_zeros(len(sizes), runs, *shape))
                for part, shape in (("weight", size), ("bias", (out,)))
            )
            for part, (read, error) in enumerate(zip(inputs, errors, strict=True)):
                weight[part].baddbmm_(read.mT, error)
                bias[part].add_(error.sum(1))
        return cls({name: stack for name, stack in stacks.items() if name in trained})

    def dots(self) -> Tensor:
        """The Gram matrix of every run's gradients, `[K, T, T]`.

        In float64, since rounding could make the Gram matrix of many similar gradients indefinite.
        """
        rows = (stack.flatten(2).transpose(0, 1).double() for stack in self._stacks.values())
        return torch.stack([row @ row.mT for row in rows]).sum(0)

    def mixed(self, shares: Tensor) -> Weights:
        """The sum of every run's gradients, weighted by shares `[K, T]`."""
        mixed = {}
        for name, stack in self._stacks.items():
            rows = stack.flatten(2).transpose(0, 1)
            mixed[name] = (shares.to(rows.dtype).unsqueeze(1) @ rows).view(stack.shape[1:])
        return Weights(mixed)


class State(dict[str, Tensor]):
    """A method's state: named tensors `[K, ...]` that persist between steps and change in place.

    Tensors in the shape of the weights have names such as `fisher.weights.head.bias`;
    `weights("fisher")` returns all of them as one object.

    >>> state = State({"fisher.weights.head.bias": torch.zeros(1, 3), "count": torch.zeros(1)})
    >>> list(state.weights("fisher").named())
    ['head.bias']
    """

    def __setitem__(self, name: str, tensor: Tensor) -> None:
        if tensor is self.get(name):  # as after `state[name] += 1`, which changes it in place
            return
        if name in self:
            raise InputError(
                f"the state {name!r} must be changed in place, so that it is saved with the run: "
                f"write state[{name!r}].copy_(...), not state[{name!r}] = ..."
            )
        raise InputError(
            f"there is no state {name!r}: create it in setup, with "
            f"Setup(state=lambda model: {{{name!r}: torch.zeros(spec.runs)}})"
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise InputError(f"state has no attributes: write state[{name!r}].copy_(...)")

    def __reduce__(self) -> tuple[type[State], tuple[dict[str, Tensor]]]:
        return State, (dict(self),)

    def weights(self, name: str) -> Weights:
        """The tensors in the shape of the weights that are stored under this name."""
        return Weights(self.below(f"{name}.weights."))

    def below(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names start with a prefix, with the prefix removed."""
        return {n.removeprefix(prefix): t for n, t in self.items() if n.startswith(prefix)}

    def row(self, run: int) -> State:
        """A view of the state of one run, with a run axis of length 1."""
        return State({name: tensor[run : run + 1] for name, tensor in self.items()})

    def to(self, device: torch.device) -> State:
        """A copy on a device."""
        return State({name: tensor.to(device) for name, tensor in self.items()})
