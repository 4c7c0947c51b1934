"""Networks that take several tensors, and examples for them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["CLASSES", "LENGTH", "Output", "Pair", "Texts", "pairs", "texts"]

CLASSES, LENGTH, WORDS = 4, 6, 20


class Output:
    """What networks of other libraries give: an object with logits."""

    def __init__(self, logits: Tensor) -> None:
        self.logits, self.hidden_states = logits, None


class Texts(nn.Module):
    """The mean of embedded words, by keyword, beside two measurements; gives an object."""

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 8)
        self.hidden = nn.Linear(10, 8)
        self.classifier = nn.Linear(8, classes)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, size: Tensor, unused: None = None
    ) -> Output:
        assert attention_mask.dtype == torch.bool
        there = attention_mask.unsqueeze(-1).to(self.words.weight.dtype)
        mean = (self.words(input_ids) * there).sum(1) / there.sum(1).clamp(min=1)
        return Output(self.classifier(self.hidden(torch.cat([mean, size], 1)).relu()))


class Pair(nn.Module):
    """Two vectors of different lengths, by position; gives a mapping."""

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(3, 8), nn.Linear(5, 8)
        self.head = nn.Linear(8, classes)

    def forward(self, left: Tensor, right: Tensor) -> dict[str, Any]:
        return {"logits": self.head((self.left(left) + self.right(right)).relu()), "more": None}


def texts(count: int, seed: int = 0) -> tuple[dict[str, Tensor], Tensor]:
    """Texts `[count, ...]` whose words tell their class, and the classes."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (count,), generator=generator)
    ids = torch.randint(0, 5, (count, LENGTH), generator=generator) + 5 * y[:, None]
    mask = torch.rand(count, LENGTH, generator=generator) > 0.3
    size = torch.randn(count, 2, generator=generator)
    return {"input_ids": ids, "attention_mask": mask, "size": size}, y


def pairs(count: int, seed: int = 0) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Two vectors each, of which the second tells the class, and the classes."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, CLASSES, (count,), generator=generator)
    right = torch.randn(count, 5, generator=generator) + 3 * torch.eye(CLASSES, 5)[y]
    return (torch.randn(count, 3, generator=generator), right), y
