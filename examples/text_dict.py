"""Intent classification with a small transformer, with new intents in each task.

    python examples/text_dict.py data_full.json

The data are CLINC150 (Larson et al., 2019): the file `data/data_full.json` of the
repository clinc/oos-eval on GitHub, 2.5 MB. A text is two tensors, its token ids and a mask, which
the network takes by name. Ten seeds of each method train as one fleet.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import recollect

INTENTS, TASKS, LENGTH, WIDTH, RARE = 30, 5, 16, 64, 2
PADDING, UNKNOWN = 0, 1
ADAM = {"optimiser": "Adam", "lr": 0.002, "bs": 20, "epochs": 3}
REPLAY = {"buffer": 200, "mbs": 20}
METHODS: dict[str, dict[str, Any]] = {
    "sgd": ADAM,
    "er": {**ADAM, **REPLAY},
    "derpp": {**ADAM, **REPLAY, "alpha": 0.3, "beta": 1.0},
}

Texts = list[tuple[str, str]]


class Output(NamedTuple):
    """Output of the network, as in other libraries."""

    logits: Tensor


class Transformer(nn.Module):
    """Transformer with one attention layer, and a linear layer on the mean of its outputs."""

    def __init__(self, words: int, classes: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, WIDTH, padding_idx=PADDING)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        self.layer = nn.TransformerEncoderLayer(
            WIDTH, nhead=4, dim_feedforward=128, dropout=0.0, batch_first=True
        )
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Output:
        """Compute logits from token ids `[n, LENGTH]` and their mask."""
        hidden = self.words(input_ids) + self.places
        hidden = self.layer(hidden, src_key_padding_mask=~attention_mask)
        there = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return Output(self.head((hidden * there).sum(1) / there.sum(1).clamp(min=1)))


def split(text: str) -> list[str]:
    """Split a text into words."""
    return re.findall(r"[a-z']+|\d+", text.lower())


def vocabulary(texts: Texts) -> dict[str, int]:
    """Assign an id to each word that is not too rare; 0 is padding, 1 an unknown word."""
    counts = Counter(word for text, _ in texts for word in split(text))
    known = sorted(word for word, count in counts.items() if count >= RARE)
    return {word: number for number, word in enumerate(known, start=2)}


def tensors(texts: Texts, known: dict[str, int]) -> dict[str, Tensor]:
    """Convert texts to padded token ids, and a mask that is True at words."""
    ids = torch.zeros(len(texts), LENGTH, dtype=torch.int32)
    for row, (text, _) in zip(ids, texts, strict=True):
        numbers = [known.get(word, UNKNOWN) for word in split(text)[:LENGTH]]
        row[: len(numbers)] = torch.tensor(numbers)
    return {"input_ids": ids, "attention_mask": ids != PADDING}


def read(path: Path) -> tuple[Texts, Texts, list[str]]:
    """Read training and test texts with their intents, and the list of intents."""
    if not path.is_file():
        raise SystemExit(
            f"{path} is not there: get data/data_full.json of clinc/oos-eval on GitHub"
        )
    data = json.loads(path.read_text("utf-8"))
    intents = sorted({intent for _, intent in data["train"]})[:INTENTS]
    train, test = (
        [(text, intent) for text, intent in data[part] if intent in intents]
        for part in ("train", "test")
    )
    return train, test, intents


def main(path: Path, seeds: int = 10) -> dict[str, recollect.Results]:
    """Train all methods, and print their accuracy and forgetting."""
    train, test, intents = read(path)
    known = vocabulary(train)
    labels = [torch.tensor([intents.index(i) for _, i in texts]) for texts in (train, test)]
    stream = recollect.from_arrays(
        tensors(train, known), labels[0], test=(tensors(test, known), labels[1]), tasks=TASKS,
        name="clinc30",
    )  # fmt: skip
    print(f"{len(train)} texts to train on, {len(test)} to test on, {len(known)} words")
    results = {}
    for name, options in METHODS.items():
        began = time.perf_counter()
        results[name] = recollect.run(
            stream, name, network=lambda: Transformer(len(known) + 2, INTENTS), seeds=seeds,
            workers=1, **options,
        )  # fmt: skip
        print(results[name], f"{time.perf_counter() - began:.0f} s", flush=True)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, help="data_full.json")
    parser.add_argument("--seeds", type=int, default=10)
    main(**vars(parser.parse_args()))
