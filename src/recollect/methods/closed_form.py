"""What heads in closed form have in common: class means, linear systems, a layer to export."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recollect.core.model import Model
from recollect.core.modules import replace_head
from recollect.core.weights import State
from recollect.errors import InputError
from recollect.methods.setup import Spec

__all__ = [
    "UNSEEN", "add_to_means", "from_means", "known_only", "linear_head", "means_and_counts",
    "solution",
]  # fmt: skip

UNSEEN = -1e9  # the score of a class without examples


def means_and_counts(spec: Spec, size: int) -> dict[str, Tensor]:
    """State: the mean of every class `[K, C, D]`, and how many examples it is of `[K, C]`."""
    return {
        "means": torch.zeros(spec.runs, spec.classes, size, dtype=torch.float64),
        "counts": torch.zeros(spec.runs, spec.classes, dtype=torch.float64),
    }


def from_means(features: Tensor, y: Tensor, state: State) -> tuple[Tensor, Tensor]:
    """How far each of a batch is from the mean of its class when it arrives, `[K, B, D]`.

    Examples arrive one after the other: the mean is of all before, in the batch too. Of how many,
    `[K, B]`, is the second result. Before the first example of a class the mean is zero.
    """
    means, counts = state["means"], state["counts"]
    before = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool, device=y.device).tril(-1)
    alike = ((y[:, :, None] == y[:, None, :]) & before).to(features.dtype)  # [K, B, B]
    stored = means.gather(1, y[:, :, None].expand(-1, -1, means.shape[2]))
    sums = stored * counts.gather(1, y)[:, :, None] + alike @ features
    number = counts.gather(1, y) + alike.sum(2)
    return features - sums / number.clamp(min=1)[:, :, None], number


def add_to_means(features: Tensor, y: Tensor, state: State) -> None:
    """Let the means and counts include a batch of features `[K, B, D]` with labels `[K, B]`."""
    means, counts = state["means"], state["counts"]
    label = torch.arange(counts.shape[1], device=y.device)
    member = (y[:, :, None] == label).to(features.dtype)  # [K, B, C]
    new = member.sum(1)
    share = (new / (counts + new).clamp(min=1))[:, :, None]
    batch = member.mT @ features / new.clamp(min=1)[:, :, None]
    means.add_(share * (batch - means))
    counts.add_(new)


def known_only(scores: Tensor, state: State, model: Model) -> Tensor:
    """Scores `[K, n, C]` in the type of the weights, very low for classes without examples."""
    return scores.masked_fill(state["counts"].unsqueeze(1) == 0, UNSEEN).to(model.rate.dtype)


def solution(matrix: Tensor, diagonal: float | Tensor, right: Tensor, name: str) -> Tensor:
    """The solution `[K, D, C]` of (matrix + diagonal * identity) X = right, for K matrices.

    The diagonal is a number, or one for each run, `[K]`: the hyper-parameter with this name.
    """
    added = torch.as_tensor(diagonal, dtype=matrix.dtype, device=matrix.device).view(-1, 1, 1)
    identity = torch.eye(matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
    factor, failed = torch.linalg.cholesky_ex(matrix + added * identity)
    if bool(failed.any()):
        raise InputError(
            f"the features depend on each other so closely that nothing can be solved for: raise "
            f"{name}, which is {diagonal}"
        )
    return torch.cholesky_solve(right, factor)


@torch.no_grad()
def linear_head(
    module: nn.Module, weight: Tensor, bias: Tensor, kind: type[nn.Linear] = nn.Linear
) -> nn.Module:
    """The module of one run with another last layer: weight `[D, C]`, bias `[C]`."""
    head, like = kind(*weight.shape), next(module.parameters())
    head.to(like.device, like.dtype)
    head.weight.copy_(weight.mT)
    head.bias.copy_(bias)
    return replace_head(module, head)
