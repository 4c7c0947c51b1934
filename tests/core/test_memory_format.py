"""Convolution weights are channels-last where the module allows it."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn

from recollect import DERpp
from recollect.core.memory_format import in_fast_format
from recollect.core.network import Network
from recollect.train.fleet import Fleet


class Viewing(nn.Module):
    """A network as in many tutorials: its `view` fails on channels-last outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4 * 6 * 6, 5)

    def flat(self, x: Tensor) -> Tensor:
        return x.view(len(x), -1)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.flat(self.norm(self.convolution(x)).relu()))
        return logits


class Flattening(Viewing):
    def flat(self, x: Tensor) -> Tensor:
        return x.flatten(1)


def fleet(module: type[nn.Module], seeds: list[int]) -> Fleet:
    return Fleet(
        [DERpp(0.1, 0.5)] * len(seeds), module, seeds=seeds, lr=[0.05] * len(seeds), classes=5,
        shape=(3, 6, 6), memory=20, replay=4,
    )  # fmt: skip


@pytest.mark.parametrize("seeds", [[0], [0, 1]])
def test_a_module_that_views_its_outputs_learns_the_same(seeds: list[int]) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(len(seeds), 40, 3, 6, 6, generator=generator)
    y = torch.randint(5, (len(seeds), 40), generator=generator)
    fleets = [fleet(module, seeds) for module in (Viewing, Flattening)]
    assert [each.network.channels_last for each in fleets] == [False, True]
    losses = [each.learn(x, y, 8) for each in fleets]
    torch.testing.assert_close(*losses, rtol=0, atol=1e-4)
    for one, other in zip(*(each.weights for each in fleets), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-4)


def test_the_trial_changes_no_statistics_and_draws_nothing() -> None:
    def build() -> nn.Module:
        return nn.Sequential(Viewing(), nn.Dropout())

    x = torch.rand(1, 2, 3, 6, 6)
    before = torch.get_rng_state()
    network = in_fast_format(partial(Network, build, [0]), x)
    assert torch.equal(torch.get_rng_state(), before)
    assert not network.channels_last
    module = in_fast_format(partial(Network, nn.Sequential(Flattening()), [0]), x)
    assert module.channels_last
    assert int(module.buffers["0.norm.num_batches_tracked"]) == 0
    assert not module.buffers["0.norm.running_mean"].any()


def test_double_precision_gains_nothing() -> None:
    build = partial(Network, Flattening, [0], dtype=torch.float64)
    assert not in_fast_format(build, torch.rand(1, 2, 3, 6, 6, dtype=torch.float64)).channels_last


def test_networks_without_convolutions_are_not_tried() -> None:
    class Failing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(2, 2, 2, 2))

        def forward(self, x: Tensor) -> Tensor:
            raise AssertionError

    assert not in_fast_format(partial(Network, Failing, [0]), torch.rand(1, 2, 4)).channels_last
