"""How the examples of a step are augmented: by functions of the user's, or as images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

import torch
from torch import Tensor

from recollect.core.images import Images, as_input
from recollect.core.modules import seeded
from recollect.core.random import Purpose, coming_bits
from recollect.errors import InputError

__all__ = ["Augmentation", "Transform", "Transforms"]

Transform = Callable[[Tensor], Tensor]


@final
@dataclass(frozen=True)
class Transforms:
    """What is done to a batch `[n, ...]` that arrives, and to one that is replayed, if anything.

    While they work, torch's generator is seeded by the run's seed and the step, so a transform
    that draws from it does the same again when a stream is continued, whatever other runs there
    are. It has the methods of `Images`. `source` is the source code of both, where a fingerprint
    needs it.

    >>> jitter = Transforms(lambda x: x + torch.rand_like(x))
    >>> views = jitter.views(torch.tensor([7]), step=0, steps=1, rows=4)[0]
    >>> once, again = (jitter.augment(torch.zeros(1, 4, 2), views) for _ in range(2))
    >>> torch.equal(once, again), float(jitter.augment_replay(torch.zeros(1, 4, 2), views).sum())
    (True, 0.0)
    """

    arriving: Transform | None = None
    replayed: Transform | None = None
    source: tuple[str, ...] = field(default=(), repr=False)

    def views(
        self, seeds: Tensor, step: int, steps: int, rows: int, purpose: Purpose = Purpose.VIEW
    ) -> Tensor:
        """A random word for every row of the coming steps, `[steps, K, rows]`."""
        return coming_bits(seeds, purpose, step, steps, rows)

    def view_of(self, words: Tensor) -> Tensor:
        """The view that a random word stands for: the word itself."""
        return words

    def augment(self, x: Tensor, views: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """What arrives `[K, n, ...]`, as a network is to read it."""
        return _transformed(self.arriving, as_input(x, dtype), views)

    def augment_replay(
        self, x: Tensor, views: Tensor, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """What is replayed `[K, n, ...]`, as a network is to read it."""
        return _transformed(self.replayed, as_input(x, dtype), views)

    def plain(self, x: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Examples as they are, for evaluation."""
        return as_input(x, dtype)


def _transformed(transform: Transform | None, x: Tensor, views: Tensor) -> Tensor:
    if transform is None or not x.shape[1]:
        return x
    changed = []
    for run, seed in zip(x, views[:, 0].tolist(), strict=True):
        with seeded(x.device, seed):
            # A transform may work in place, and what arrived is stored as it is.
            found: object = transform(run.clone())
        if not isinstance(found, Tensor) or found.shape != run.shape:
            given = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(
                f"a transform must give a tensor of the shape that it got, {list(run.shape)}, "
                f"not {given}: examples that are stored or tested keep theirs"
            )
        changed.append(found)
    return torch.stack(changed)


@final
@dataclass(frozen=True)
class Augmentation:
    """How the examples of a step are augmented, with the batch and the draws as stored.

    Where nothing is augmented, a view of an example is the example itself.
    """

    images: Images | Transforms | None = None
    raw_batch: Tensor | None = None
    raw_draws: Sequence[Tensor] = ()
    dtype: torch.dtype = torch.float32

    def batch(self, x: Tensor) -> Tensor:
        """The batch as it arrived, whose augmented form is x."""
        return x if self.raw_batch is None else self.raw_batch

    def drawn(self, number: int, x: Tensor) -> Tensor:
        """A draw as it is stored, whose augmented form is x."""
        return self.raw_draws[number] if self.raw_draws else x

    def plain(self, raw: Tensor) -> Tensor:
        """Stored examples as inputs of a network, without augmentation."""
        return raw if self.images is None else self.images.plain(raw, self.dtype)

    def view(self, raw: Tensor, words: Tensor, replayed: bool) -> Tensor:
        """Stored examples in the views that random words `[K, n]` stand for."""
        if self.images is None:
            return raw
        augment = self.images.augment_replay if replayed else self.images.augment
        return augment(raw, self.images.view_of(words), self.dtype)
