"""The examples of a step before they were augmented, and further views of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from recollect.core.images import Images
from recollect.core.transforms import Transforms

__all__ = ["Augmentation"]


@final
@dataclass(frozen=True)
class Augmentation:
    """How the examples of a step are augmented, with the `batch` and the `draws` as stored.

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
