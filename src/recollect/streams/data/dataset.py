"""Loaded data sets, and the choice of held-out test examples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.core.random import Purpose, bits, permute
from recollect.errors import DataError


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images and labels, split into a training and a test set.

    Images are grey, `[N, H, W]`, or RGB, `[N, 3, H, W]`.

    >>> x, y = torch.zeros(2, 8, 8, dtype=torch.uint8), torch.tensor([0, 1])
    >>> Dataset("blank", classes=2, train_x=x, train_y=y, test_x=x, test_y=y).train_x.shape
    torch.Size([2, 8, 8])
    """

    name: str
    classes: int
    train_x: Tensor  # [N, H, W] or [N, 3, H, W] uint8
    train_y: Tensor  # [N] int64
    test_x: Tensor  # [M, H, W] or [M, 3, H, W] uint8
    test_y: Tensor  # [M] int64

    def __post_init__(self) -> None:
        _check(f"the training part of {self.name}", self.train_x, self.train_y, self.classes)
        _check(f"the test part of {self.name}", self.test_x, self.test_y, self.classes)
        if self.train_x.shape[1:] != self.test_x.shape[1:]:
            raise DataError(
                f"{self.name} has images of shape {tuple(self.train_x.shape[1:])} to learn and "
                f"{tuple(self.test_x.shape[1:])} to test: give images of one shape"
            )


def held_out(groups: Tensor, share: float = 0.2, *words: int) -> Tensor:
    """Mask `[N]` of held-out test examples: a random share of each group.

    `groups` `[N]` has the group number of each example. The choice is deterministic; `words`
    distinguish several splits.
    """
    held = torch.zeros_like(groups, dtype=torch.bool)
    for group in sorted(set(groups.tolist())):
        members = (groups == group).nonzero().flatten()
        count = len(members)
        size = min(max(1, round(count * share)), count - 1)
        key = bits(torch.tensor([0]), Purpose.SPLIT, group, *words)
        held[members[permute(key, torch.arange(size), count)]] = True
    return held


def _check(part: str, x: Tensor, y: Tensor, classes: int) -> None:
    grey, colour = x.dim() == 3, x.dim() == 4 and x.shape[1] == 3
    if x.dtype != torch.uint8 or not (grey or colour):
        raise DataError(
            f"{part} has images of type {x.dtype} and shape {tuple(x.shape)}: give them as uint8 "
            "of shape (examples, height, width) or (examples, 3, height, width)"
        )
    if y.dtype != torch.int64 or y.shape != x.shape[:1]:
        raise DataError(
            f"{part} has labels of type {y.dtype} and shape {tuple(y.shape)} "
            f"for {len(x)} images: give one int64 label for each image"
        )
    if len(y) and (int(y.min()) < 0 or int(y.max()) >= classes):
        raise DataError(
            f"{part} has labels from {int(y.min())} to {int(y.max())}: "
            f"with {classes} classes they must lie in 0..{classes - 1}"
        )
