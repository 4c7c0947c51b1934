"""Functions of the user's that change examples before a network learns from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from recollect.core.inputs import as_input
from recollect.core.random import Purpose, bits
from recollect.errors import InputError

__all__ = ["Transform", "Transforms"]

Transform = Callable[[Tensor], Tensor]


@final
@dataclass(frozen=True)
class Transforms:
    """What is done to a batch `[n, ...]` that arrives, and to one that is replayed, if anything.

    While they work, torch's generator is seeded by the run's seed and the step, so a transform
    that draws from it does the same again when a stream is continued.

    >>> jitter = Transforms(lambda x: x + torch.rand_like(x))
    >>> views = jitter.views(torch.tensor([7]), step=0, steps=1, rows=4)[0]
    >>> once, again = (jitter.augment(torch.zeros(1, 4, 2), views) for _ in range(2))
    >>> torch.equal(once, again), float(jitter.augment_replay(torch.zeros(1, 4, 2), views).sum())
    (True, 0.0)
    """

    arriving: Transform | None = None
    replayed: Transform | None = None

    def views(
        self, seeds: Tensor, step: int, steps: int, rows: int, purpose: Purpose = Purpose.VIEW
    ) -> Tensor:
        """A random number for every row of the coming steps, `[steps, K, rows]`."""
        when = torch.arange(step, step + steps, device=seeds.device)[:, None, None]
        return bits(seeds[:, None], purpose, when, torch.arange(rows, device=seeds.device))

    def view_of(self, words: Tensor) -> Tensor:
        """The view that a random word stands for: the word itself."""
        return words

    def augment(self, x: Tensor, views: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """What arrives `[1, n, ...]`, as a network is to read it."""
        return _done(self.arriving, as_input(x, dtype), views)

    def augment_replay(
        self, x: Tensor, views: Tensor, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """What is replayed `[1, n, ...]`, as a network is to read it."""
        return _done(self.replayed, as_input(x, dtype), views)

    def plain(self, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Examples as they are, for testing."""
        return as_input(x, dtype)


def _done(transform: Transform | None, x: Tensor, views: Tensor) -> Tensor:
    if transform is None or not x.shape[1]:
        return x
    devices = [x.device] if x.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(views[0, 0]))
        # A transform may work in place, and what arrived is stored as it is.
        changed: object = transform(x[0].clone())
    if not isinstance(changed, Tensor) or len(changed) != x.shape[1]:
        raise InputError(f"a transform must give a tensor of {x.shape[1]} examples back")
    return changed.unsqueeze(0)
