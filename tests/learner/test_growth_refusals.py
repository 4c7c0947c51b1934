"""Networks that cannot get more outputs say so in the first step, before anything is saved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from recollect import ER, InputError, Learner


class TwoHeads(nn.Module):
    """A network whose logits come from two layers, of which only one would grow."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 2), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.first(x), self.second(x)], 1)


def test_a_head_that_is_a_part_of_the_logits_does_not_grow() -> None:
    learner = Learner(TwoHeads(), ER(), memory=20)
    with pytest.raises(InputError, match=r"does not compute its logits.*list all classes"):
        learner.observe(torch.rand(4, 4), list("abcd"))
    assert learner.seen == 0
    listed = Learner(TwoHeads(), ER(), memory=20, classes=list("abc"))
    listed.observe(torch.rand(3, 4), list("abc"))


@pytest.mark.parametrize("last", [nn.BatchNorm1d, nn.LayerNorm])
def test_a_layer_after_the_head_that_knows_its_size(last: Callable[[int], nn.Module]) -> None:
    learner = Learner(nn.Sequential(nn.Linear(4, 1), last(1)), ER(), memory=20)
    with pytest.raises(InputError, match=r"works, but not with more outputs.*list all classes"):
        learner.observe(torch.rand(4, 4), list("abab"))


def test_a_tensor_that_is_negated_lazily_is_learned() -> None:
    x = torch.fft.fft(torch.rand(10, 4)).conj().imag
    assert x.is_neg()
    learner = Learner(nn.Linear(4, 1), ER(), memory=20)
    learner.observe(x, [0, 1] * 5)
    assert learner.predict(x) == learner.predict(x.clone())
