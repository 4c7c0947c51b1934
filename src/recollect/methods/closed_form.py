"""Helpers of classifiers by class means, and of linear systems with cached solutions."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar, final

import torch
from torch import Tensor, nn

from recollect.core.model import Model
from recollect.core.modules import replace_head
from recollect.core.weights import State
from recollect.errors import InputError
from recollect.methods.setup import Spec

if TYPE_CHECKING:
    from recollect.methods.base import Method

T = TypeVar("T")

EXACT = "donot_use_mm_for_euclid_dist"  # matrix products would round small distances
UNSEEN = -1e9  # the score of a class without examples


def means_and_counts(spec: Spec, size: int) -> dict[str, Tensor]:
    """Create the state: the mean feature `[K, C, D]` and number of examples `[K, C]` per class."""
    return {
        "means": torch.zeros(spec.runs, spec.classes, size, dtype=torch.float64),
        "counts": torch.zeros(spec.runs, spec.classes, dtype=torch.float64),
    }


def from_means(features: Tensor, y: Tensor, state: State) -> tuple[Tensor, Tensor]:
    """Differences `[K, B, D]` of features from the class means, and the counts `[K, B]` of these.

    Examples are processed in order: the mean is over all earlier examples of the class, including
    those in the batch. Before the first example of a class, its mean is zero.
    """
    means, counts = state["means"], state["counts"]
    before = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool, device=y.device).tril(-1)
    alike = ((y[:, :, None] == y[:, None, :]) & before).to(features.dtype)  # [K, B, B]
    stored = means.gather(1, y[:, :, None].expand(-1, -1, means.shape[2]))
    sums = stored * counts.gather(1, y)[:, :, None] + alike @ features
    number = counts.gather(1, y) + alike.sum(2)
    return features - sums / number.clamp(min=1)[:, :, None], number


def add_to_means(features: Tensor, y: Tensor, state: State) -> None:
    """Update the means and counts with a batch of features `[K, B, D]` and labels `[K, B]`."""
    means, counts = state["means"], state["counts"]
    member = one_hot(y, counts.shape[1], features.dtype)  # [K, B, C]
    new = member.sum(1)
    share = (new / (counts + new).clamp(min=1))[:, :, None]
    batch = member.mT @ features / new.clamp(min=1)[:, :, None]
    means.add_(share * (batch - means))
    counts.add_(new)


def one_hot(labels: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """One-hot vectors `[K, n, C]` of labels `[K, n]`."""
    return (labels.unsqueeze(2) == torch.arange(classes, device=labels.device)).to(dtype)


def by_distance(features: Tensor, means: Tensor, counts: Tensor) -> Tensor:
    """Minus the distance to each class mean, `[K, n, C]`, or `UNSEEN` without examples."""
    distance = torch.cdist(features, means, compute_mode=EXACT)
    return (-distance).masked_fill(counts.unsqueeze(1) == 0, UNSEEN)


def known_only(scores: Tensor, state: State, model: Model) -> Tensor:
    """Mask the scores `[K, n, C]` of classes without examples, in the type of the weights."""
    return scores.masked_fill(state["counts"].unsqueeze(1) == 0, UNSEEN).to(model.rate.dtype)


def solution(matrix: Tensor, diagonal: float | Tensor, right: Tensor, name: str) -> Tensor:
    """Solve (matrix + diagonal * identity) X = right for X `[K, D, C]`, for K matrices.

    `diagonal` is a number or `[K]`; `name` is the hyper-parameter that sets it, for messages.
    """
    added = torch.as_tensor(diagonal, dtype=matrix.dtype, device=matrix.device).view(-1, 1, 1)
    identity = torch.eye(matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
    factor, failed = torch.linalg.cholesky_ex(matrix + added * identity)
    if bool(failed.any()):
        raise InputError(
            f"the linear system is singular because features are linearly dependent: increase "
            f"{name}, which is {diagonal}"
        )
    return torch.cholesky_solve(right, factor)


@torch.no_grad()
def linear_head(
    module: nn.Module, weight: Tensor, bias: Tensor, kind: type[nn.Linear] = nn.Linear
) -> nn.Module:
    """Replace the last layer of one run's module by one with weight `[D, C]` and bias `[C]`."""
    head, like = kind(*weight.shape), next(module.parameters())
    head.to(like.device, like.dtype)
    head.weight.copy_(weight.mT)
    head.bias.copy_(bias)
    return replace_head(module, head)


class _Entry(NamedTuple, Generic[T]):
    of: weakref.ref[Tensor]
    version: int
    steps: int
    method: Method
    value: T


@final
class Solved(Generic[T]):
    """Cache of the last value computed from each state, so that predictions do not solve again.

    Results do not depend on the cache, so it is not part of a run's state. A state is identified by
    one of its tensors. It has changed if that tensor was written to, which torch counts in
    `_version`, or if steps were taken, because captured steps write without being counted.

    >>> from recollect import SGD
    >>> state, solved, method = torch.zeros(1), Solved[float](), SGD()
    >>> [solved(method, state, steps, lambda: print("computed") or 1.0) for steps in (0, 0, 1)]
    computed
    computed
    [1.0, 1.0, 1.0]
    """

    def __init__(self) -> None:
        self._entries: dict[int, _Entry[T]] = {}

    def __call__(self, method: Method, tensor: Tensor, steps: int, compute: Callable[[], T]) -> T:
        """Return the cached value of the state with this tensor after `steps`, or compute it."""
        key = id(tensor)
        known = self._entries.get(key)
        now = (tensor._version, steps)
        if (
            known is None
            or known.of() is not tensor
            or known.method is not method
            or known[1:3] != now
        ):
            gone = weakref.ref(tensor, lambda _: self._entries.pop(key, None))
            known = _Entry(gone, *now, method, compute())
            self._entries[key] = known
        return known.value
