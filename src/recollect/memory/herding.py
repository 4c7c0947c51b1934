"""Herding: a few examples whose mean stays close to the mean of all."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize

__all__ = ["herd", "unit"]

TINY = 1e-24


def unit(features: Tensor) -> Tensor:
    """The features `[..., D]` scaled to length 1; zeros stay zeros.

    >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    return normalize(features, dim=-1)


def herd(features: Tensor, count: int) -> Tensor:
    """The indices `[K, count]` of examples with features `[K, n, D]`, the most important first.

    Each is the one that, with those before it, brings the mean closest to that of all
    (Rebuffi et al., 2017, Algorithm 4). Means are scaled to length 1 there, so closest is what has
    the largest cosine: one product of a matrix and a vector for every example that is chosen.

    >>> herd(torch.tensor([[[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]]), count=3)
    tensor([[1, 0, 2]])
    """
    columns = features.mT.contiguous()  # [K, D, n]: read in this order, products are far faster
    squares = columns.square().sum(1)
    mean = unit(features.mean(1))
    ahead = torch.bmm(mean.unsqueeze(1), columns).squeeze(1)  # [K, n]; none for what is taken
    total = torch.zeros_like(mean)
    chosen = torch.zeros(len(features), count, dtype=torch.int64, device=features.device)
    for number in range(count):
        along = torch.bmm(total.unsqueeze(1), columns).squeeze(1)
        length = (total.square().sum(1, keepdim=True) + 2 * along + squares).clamp(min=TINY).sqrt()
        best = (((total * mean).sum(1, keepdim=True) + ahead) / length).argmax(1, keepdim=True)
        chosen[:, number : number + 1] = best
        ahead.scatter_(1, best, -torch.inf)
        total += features.gather(1, best.unsqueeze(2).expand(-1, -1, features.shape[2])).squeeze(1)
    return chosen
