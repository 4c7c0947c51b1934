"""A first layer that brings features of any scale to a mean of 0 and a deviation of 1."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recollect.errors import InputError

__all__ = ["Standardise"]

EARLY = 1e4  # the deviation of the first n values is known so badly that this over n is no limit


class Standardise(nn.Module):
    """Subtracts the mean of every feature and divides by its deviation, as seen so far.

    In training, a batch (of one example too) is first counted in and then standardised; a pass
    without gradients counts nothing. After `horizon` examples the oldest fade, so that a slow drift
    is followed. A value far from anything seen is cut off at `limit` deviations. What is counted
    in is cut off at the square root of the number of examples so far, in deviations, once there are
    hundreds: none of n values lies further from their mean than that, and so a single
    value at most doubles the variance, whatever its size.

    With `first`, only the first so many features are standardised: those after them, such as
    indicators and categories, pass as they are.

    >>> layer = Standardise(2)
    >>> layer(torch.tensor([[1.0, 5e6], [3.0, 7e6]]))
    tensor([[-1., -1.],
            [ 1.,  1.]])
    >>> layer.eval()(torch.tensor([[2.0, 9e6]]))
    tensor([[0., 3.]])
    """

    broadcasts_runs = True

    def __init__(
        self, features: int, horizon: int = 10_000, limit: float = 10.0, first: int | None = None
    ) -> None:
        super().__init__()
        self.horizon, self.limit = horizon, limit
        self.first = features if first is None else first
        if not 1 <= self.first <= features:
            raise InputError(f"first must be in 1..{features}, not {first}")
        # Parameters that are not trained, where others have buffers: a fleet whose networks have
        # no buffers takes what arrives and what is replayed in one pass.
        self.mean = nn.Parameter(torch.zeros(self.first), requires_grad=False)
        self.deviation = nn.Parameter(torch.ones(self.first), requires_grad=False)
        self.seen = nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Features `[..., n, F]` of examples `[..., n, *shape]`, with or without a run axis."""
        flat = x.flatten(self.mean.dim())
        flat, rest = flat[..., : self.first], flat[..., self.first :]
        if self.training and torch.is_grad_enabled():
            self._count_in(flat.detach())
        mean, deviation = self.mean.unsqueeze(-2), self.deviation.unsqueeze(-2)
        scale = torch.maximum(deviation, _least(mean))
        scaled = ((flat - mean) / scale).clamp(-self.limit, self.limit)
        return torch.cat([scaled, rest], -1) if rest.shape[-1] else scaled

    @torch.no_grad()
    def _count_in(self, x: Tensor) -> None:
        """Let the statistics include a batch; in 64 bits, where a square is always finite."""
        size = x.shape[-2]
        seen = self.seen.double().clamp(max=self.horizon)
        share = (size / (seen + size)).unsqueeze(-1)
        before, spread = self.mean.double(), self.deviation.double()
        # A column that has not varied yet has no scale: its first other value sets it.
        times = torch.maximum(seen.sqrt(), EARLY / seen).unsqueeze(-1)
        reach = (spread * times).where(spread > _least(before), torch.inf)
        low, high = (before - reach).unsqueeze(-2), (before + reach).unsqueeze(-2)
        variance, mean = torch.var_mean(x.double().clamp(low, high), -2, correction=0)
        apart = mean - before
        # Chan's rule for the variance of two sets, weighted by their sizes.
        variance = torch.lerp(spread.square(), variance, share)
        variance = variance + apart.square() * share * (1 - share)
        self.mean.copy_(before + apart * share)
        self.deviation.copy_(variance.sqrt())
        self.seen.copy_(seen + size)


def _least(mean: Tensor) -> Tensor:
    """The smallest difference that 32 bits can tell at this distance from zero."""
    return (1e-6 * mean.abs()).clamp(min=1e-12)
