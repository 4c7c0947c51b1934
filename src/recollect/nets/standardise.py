"""An online standardisation layer: running mean 0 and standard deviation 1 per feature."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recollect.errors import InputError

EARLY = 1e4  # over n, a clipping limit that is large while n values estimate a deviation badly


class Standardise(nn.Module):
    """Online standardisation: subtract the running mean of every feature, divide by its deviation.

    In training mode, the statistics are updated with a batch (even of one example) before it is
    standardised; a pass without gradients does not update them. After `horizon` examples, older
    ones are gradually forgotten, so that statistics follow a slow drift. Outputs are clipped to
    `limit` standard deviations. To make the statistics robust, the values that update them are
    clipped to sqrt(n) deviations after n examples, once there are hundreds: no value of n is
    further from their mean, and a single outlier of any size at most doubles the variance.

    With `first`, only that many leading features are standardised; the others, such as indicators
    and categories, are passed through unchanged.

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
        # Frozen parameters instead of buffers, because a network without buffers processes incoming
        # and replayed examples in one pass.
        self.mean = nn.Parameter(torch.zeros(self.first), requires_grad=False)
        self.deviation = nn.Parameter(torch.ones(self.first), requires_grad=False)
        self.seen = nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Standardise examples `[..., n, *shape]`, with or without a run axis, to `[..., n, F]`."""
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
        """Update the statistics with a batch, in float64, where squares of float32 are finite."""
        size = x.shape[-2]
        seen = self.seen.double().clamp(max=self.horizon)
        share = (size / (seen + size)).unsqueeze(-1)
        before, spread = self.mean.double(), self.deviation.double()
        # A feature that has been constant has no scale yet; its first other value is not clipped.
        times = torch.maximum(seen.sqrt(), EARLY / seen).unsqueeze(-1)
        reach = (spread * times).where(spread > _least(before), torch.inf)
        low, high = (before - reach).unsqueeze(-2), (before + reach).unsqueeze(-2)
        variance, mean = torch.var_mean(x.double().clamp(low, high), -2, correction=0)
        apart = mean - before
        # Chan's formula for the variance of two sets, weighted by their sizes.
        variance = torch.lerp(spread.square(), variance, share)
        variance = variance + apart.square() * share * (1 - share)
        self.mean.copy_(before + apart * share)
        self.deviation.copy_(variance.sqrt())
        self.seen.copy_(seen + size)


def _least(mean: Tensor) -> Tensor:
    """The smallest difference that float32 resolves at this magnitude."""
    return (1e-6 * mean.abs()).clamp(min=1e-12)
