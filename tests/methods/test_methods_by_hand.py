"""Whole runs against a loop that anyone would write: a list for a memory, torch's optimiser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from recollect import DER, ER, MLP, SGD, DERpp, Fleet, Method
from recollect.core.random import Purpose, below, bits, permute

SEED, LR, CAPACITY, REPLAY, BATCH = 7, 0.3, 9, 6, 4
METHODS: list[Method] = [SGD(), ER(), DER(0.8), DERpp(0.8, 0.3)]


@dataclass
class ByHand:
    """One run. Its drawn numbers are the library's; what it does with them is written out."""

    method: Method
    net: nn.Module
    buffer: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)
    seen: int = 0
    steps: int = 0

    def observe(self, x: Tensor, y: Tensor) -> float:
        draws = [self.sample(which) for which in range(2)]
        logits = self.net(x)
        loss = functional.cross_entropy(logits, y)
        past_x, past_y, past_logits = draws[0]
        if isinstance(self.method, ER):
            everything = self.net(torch.cat([x, past_x]))
            loss = functional.cross_entropy(everything, torch.cat([y, past_y]))
        if isinstance(self.method, DER | DERpp) and len(self.buffer):
            loss = loss + self.method.alpha * functional.mse_loss(self.net(past_x), past_logits)
        if isinstance(self.method, DERpp) and len(self.buffer):
            past_x, past_y, _ = draws[1]
            loss = loss + self.method.beta * functional.cross_entropy(self.net(past_x), past_y)
        optimiser = torch.optim.SGD(self.net.parameters(), LR)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        for example in zip(x, y, logits.detach(), strict=True):
            self.insert(example)
        self.steps += 1
        return loss.item()

    def sample(self, which: int) -> tuple[Tensor, Tensor, Tensor]:
        filled = len(self.buffer)
        if not filled:
            nothing = torch.zeros(0, dtype=torch.float64)
            return nothing.view(0, 6), nothing.long(), nothing.view(0, 3)
        key = bits(torch.tensor(SEED), Purpose.DRAW, self.steps, which)
        places = permute(key, torch.arange(min(REPLAY, filled)), filled)
        x, y, logits = zip(*(self.buffer[place] for place in places), strict=True)
        return torch.stack(x), torch.stack(y), torch.stack(logits)

    def insert(self, example: tuple[Tensor, Tensor, Tensor]) -> None:
        if len(self.buffer) < CAPACITY:
            self.buffer.append(example)
        else:
            word = bits(torch.tensor(SEED), Purpose.SLOT, self.seen)
            slot = int(below(word, self.seen + 1))
            if slot < CAPACITY:
                self.buffer[slot] = example
        self.seen += 1


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_run_is_the_loop_that_anyone_would_write(
    method: Method, tiny_net: Callable[[], MLP], examples: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    """Nine steps: an empty memory, one with less than a replay, a full one, a ragged batch."""
    torch.manual_seed(SEED)
    by_hand = ByHand(method, tiny_net().double())
    fleet = Fleet(
        [method], tiny_net, seeds=[SEED], lr=[LR], classes=3, shape=(6,), memory=CAPACITY,
        replay=REPLAY, stored=torch.float64, dtype=torch.float64,
    )  # fmt: skip
    x, y = examples([SEED], 34)
    for start in range(0, 34, BATCH):
        part_x, part_y = x[:, start : start + BATCH], y[:, start : start + BATCH]
        loss = fleet.learn(part_x, part_y, BATCH)
        assert loss.item() == pytest.approx(by_hand.observe(part_x[0], part_y[0]), abs=1e-11)
        for name, parameter in by_hand.net.named_parameters():
            ours = fleet.weights.named()[name][0]
            torch.testing.assert_close(ours, parameter.detach(), rtol=0, atol=1e-11)
        kept = dict(zip(("x", "y", "logits"), zip(*by_hand.buffer, strict=True), strict=True))
        for name in method.replay.names if method.replay else ():
            ours = fleet.memory.fields()[name][0, : len(by_hand.buffer)]
            tolerance = 1e-11 if name == "logits" else 0.0
            torch.testing.assert_close(ours, torch.stack(kept[name]), rtol=0, atol=tolerance)
    assert (fleet.steps, fleet.seen) == (9, 34)
