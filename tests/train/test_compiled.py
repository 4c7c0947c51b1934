"""A compiled fleet: the same result and the same effects in place."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from recollect import MLP, DERpp, Fleet
from recollect.train.compiled import compiler_exists


@pytest.mark.skipif(not compiler_exists(), reason="there is no C++ compiler on this machine")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")
def test_compiling_changes_nothing(
    tiny_net: Callable[[], MLP], examples: Callable[..., tuple[Tensor, Tensor]]
) -> None:
    """Enough steps to compile one shape, with a first and a last batch that run as they are."""

    def fleet_of(compiled: bool) -> Fleet:
        return Fleet(
            [DERpp(0.4, 0.9), DERpp(1.1, 0.0)], tiny_net, seeds=[0, 1], lr=[0.2, 0.1], classes=3,
            shape=(6,), memory=8, replay=3, stored=torch.float64, dtype=torch.float64,
            compiled=compiled,
        )  # fmt: skip

    plain, fast = fleet_of(False), fleet_of(True)
    held = next(iter(fast.weights))
    start = held.clone()
    for part in range(2):
        x, y = (tensor[:, part * 62 : part * 62 + 62] for tensor in examples([0, 1], 124))
        losses = [fleet.learn(x, y, batch=4) for fleet in (plain, fast)]
        torch.testing.assert_close(losses[0], losses[1], rtol=0, atol=1e-10)
        for name, tensor in fast.memory.fields().items():
            expected = plain.memory.fields()[name]
            torch.testing.assert_close(
                tensor, expected, rtol=0, atol=1e-10 if name == "logits" else 0.0
            )
        for name, tensor in fast.weights.named().items():
            torch.testing.assert_close(tensor, plain.weights.named()[name], rtol=0, atol=1e-10)
    assert next(iter(fast.weights)) is held
    assert not torch.equal(held, start)
    assert len(fast._advance._ready) == 1  # type: ignore[union-attr]
