"""Data augmentation by user-defined transforms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from recollect.core.images import as_input
from recollect.core.modules import seeded
from recollect.errors import InputError

Transform = Callable[[Tensor], Tensor]


@final
@dataclass(frozen=True)
class Transforms:
    """User-defined transforms of incoming batches and of replayed batches `[n, ...]`.

    Transforms run with torch's generator seeded by the run's seed and the step, so a random
    transform is reproducible when a stream is continued and does not depend on other runs. The
    class has the methods of `Images`. `source` is a hash of both functions, for fingerprints.

    >>> jitter = Transforms(lambda x: x + torch.rand_like(x))
    >>> views = torch.tensor([[7, 8, 9, 10]])
    >>> once, again = (jitter.augment(torch.zeros(1, 4, 2), views) for _ in range(2))
    >>> torch.equal(once, again), float(jitter.augment_replay(torch.zeros(1, 4, 2), views).sum())
    (True, 0.0)
    """

    arriving: Transform | None = None
    replayed: Transform | None = None
    source: tuple[str, ...] = field(default=(), repr=False)

    def view_of(self, words: Tensor) -> Tensor:
        """Map random words to views; a view is the word itself."""
        return words

    def augment(self, x: Tensor, views: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Transform incoming examples `[K, n, ...]` into network inputs."""
        return _transformed(self.arriving, as_input(x, dtype), views)

    def augment_replay(
        self, x: Tensor, views: Tensor, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Transform replayed examples `[K, n, ...]` into network inputs."""
        return _transformed(self.replayed, as_input(x, dtype), views)

    def plain(self, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Convert examples to network inputs without transforms, for evaluation."""
        return as_input(x, dtype)


def _transformed(transform: Transform | None, x: Tensor, views: Tensor) -> Tensor:
    if transform is None or not x.shape[1]:
        return x
    changed = []
    for run, seed in zip(x, views[:, 0].tolist(), strict=True):
        with seeded(x.device, seed):
            # A transform may work in place, but the original examples are stored.
            found: object = transform(run.clone())
        if not isinstance(found, Tensor) or found.shape != run.shape:
            given = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(
                f"a transform must return a tensor of the shape that it received, "
                f"{list(run.shape)}, not {given}: stored and test examples have that shape"
            )
        changed.append(found)
    return torch.stack(changed)
