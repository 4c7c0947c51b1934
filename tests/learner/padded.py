"""Networks for padded sequences, which refuse an example of zeros, and examples for them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

WORDS, LENGTH = 50, 12


class Transformer(nn.Module):
    """A transformer over padded words; it refuses a batch of padding only in evaluation mode."""

    def __init__(self, classes: int = 1) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.classifier = nn.Linear(16, classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        encoded = self.encoder(self.words(input_ids), src_key_padding_mask=~attention_mask)
        logits: Tensor = self.classifier(encoded[:, 0])
        return logits


class Recurrent(nn.Module):
    """An LSTM over packed sequences; it refuses lengths of 0."""

    def __init__(self, classes: int = 1) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 16)
        self.lstm = nn.LSTM(16, 16, batch_first=True)
        self.classifier = nn.Linear(16, classes)

    def forward(self, input_ids: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(
            self.words(input_ids), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        _, (last, _) = self.lstm(packed)
        logits: Tensor = self.classifier(last[-1])
        return logits


class Picky(nn.Module):
    """A network that accepts neither zeros nor ones."""

    def __init__(self, classes: int = 1) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(4, 8), nn.Linear(8, classes)

    def forward(self, x: Tensor) -> Tensor:
        if bool((x == x[:, :1]).all()):
            raise ValueError("constant examples")
        logits: Tensor = self.head(self.hidden(x).relu())
        return logits


def padded(kind: type[nn.Module], count: int = 8, seed: int = 0) -> dict[str, Tensor]:
    """Make examples for a network of this class; the second half of every one is padding."""
    generator = torch.Generator().manual_seed(seed)
    if kind is Picky:
        return {"x": torch.rand(count, 4, generator=generator)}
    ids = torch.randint(1, WORDS, (count, LENGTH), generator=generator)
    ids[:, LENGTH // 2 :] = 0
    if kind is Recurrent:
        return {"input_ids": ids, "lengths": torch.full((count,), LENGTH // 2)}
    return {"input_ids": ids, "attention_mask": ids > 0}
