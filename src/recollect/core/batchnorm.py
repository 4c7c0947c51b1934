"""Batch normalisation that normalises each part of a concatenated batch separately."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn import functional

from recollect.errors import InputError

KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


class PartNorm(nn.Module):
    """Batch normalisation of several batches in one pass, with the same result as separate passes.

    `parts` are the sizes of the batches that are concatenated in the input. Every part is
    normalised by its own mean and variance, and the running statistics are updated with one part
    after the other, so outputs, gradients and statistics equal those of separate passes. With
    `written_out`, the same is computed as plain arithmetic on all parts at once, which a compiler
    makes faster than torch's own kernel.

    >>> norm = PartNorm(nn.BatchNorm1d(2))
    >>> norm.parts = (3, 5)
    >>> norm(torch.rand(8, 2))[:3].mean(0).abs() < 1e-6
    tensor([True, True])
    """

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(self, norm: nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d) -> None:
        super().__init__()
        self.eps = norm.eps
        self.momentum = norm.momentum or 0.0
        self.weight: Tensor | None = norm.weight
        self.bias: Tensor | None = norm.bias
        self.parts: Sequence[int] = ()
        self.written_out = False
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(norm, name))
        self.train(norm.training)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the input `[n, C, ...]`; in training mode, part by part."""
        if not self.training:
            return self._normalise(x, training=self.running_mean is None)
        sizes = [size for size in self.parts if size] or [len(x)]
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(len(sizes))
        if self.written_out and len(set(sizes)) == 1:
            return self._together(x, len(sizes))
        return torch.cat(
            [self._normalise(part, training=True) for part in torch.split_with_sizes(x, sizes)]
        )

    def _together(self, x: Tensor, parts: int) -> Tensor:
        rows = x.view(parts, -1, *x.shape[1:]).to(torch.promote_types(x.dtype, torch.float32))
        axes = [1, *range(3, rows.dim())]
        var, mean = torch.var_mean(rows, axes, correction=0, keepdim=True)  # [parts, 1, C, 1, ..]
        count = rows[0].numel() // rows.shape[2]
        if self.running_mean is not None and self.running_var is not None:
            means, variances = mean.detach().flatten(1), var.detach().flatten(1)
            for one, other in zip(means, variances * count / (count - 1), strict=True):
                self.running_mean.lerp_(one.to(self.running_mean.dtype), self.momentum)
                self.running_var.lerp_(other.to(self.running_var.dtype), self.momentum)
        scale, channels = (var + self.eps).rsqrt(), [-1, *[1] * (x.dim() - 2)]
        if self.weight is None or self.bias is None:
            result = (rows - mean) * scale
        else:
            scale = scale * self.weight.view(channels)
            result = rows * scale + (self.bias.view(channels) - mean * scale)
        return result.to(x.dtype).view(x.shape)

    def _normalise(self, x: Tensor, *, training: bool) -> Tensor:
        mean, var = self.running_mean, self.running_var
        if training and x.numel() == x.shape[1]:
            raise InputError(
                "batch normalisation cannot train on a single value per channel: train on batches "
                "of at least 2 examples (the last batch too), or use a network without batch "
                "normalisation"
            )
        return functional.batch_norm(
            x, mean, var, self.weight, self.bias, training, self.momentum, self.eps
        )


def keep_parts_apart(module: nn.Module) -> list[PartNorm]:
    """Replace every batch normalisation layer of a module by a `PartNorm`, in place.

    The names of parameters and statistics do not change. Layers with a cumulative average
    (`momentum=None`) are not replaced.

    >>> module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    >>> len(keep_parts_apart(module)), [name for name, _ in module.named_parameters()]
    (1, ['0.weight', '0.bias', '1.weight', '1.bias'])
    """
    for parent in list(module.modules()):
        for name, child in parent.named_children():
            if type(child) in KINDS and getattr(child, "momentum", None) is not None:
                setattr(parent, name, PartNorm(child))  # type: ignore[arg-type]
    return [layer for layer in module.modules() if isinstance(layer, PartNorm)]


@contextmanager
def written_out(norms: Sequence[PartNorm]) -> Iterator[None]:
    """Compute normalisations as plain arithmetic within this context, for a compiler to fuse."""
    for norm in norms:
        norm.written_out = True
    try:
        yield
    finally:
        for norm in norms:
            norm.written_out = False
