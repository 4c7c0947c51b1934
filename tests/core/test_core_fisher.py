"""The Fisher information against a loop over examples and answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate

import pytest
import torch
from tests.core.networks import model_of
from torch import Tensor, nn

from recollect import MLP, ResNet18
from recollect.core import per_example
from recollect.core.dense import Dense
from recollect.core.layers import Layers
from recollect.core.network import Network

SEEDS = [3, 0]
COUNT, CLASSES = 19, 3


class Twice(nn.Module):
    """A convolution that is called twice, and changes in place around it."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 2, 2, stride=2, padding=(1, 2), bias=True)
        self.again = nn.Conv2d(2, 2, 3, padding=2, dilation=2, bias=False)
        self.norm = nn.BatchNorm2d(2)
        self.head = nn.Linear(2, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = x.mul_(2.0)
        x = torch.relu_(self.norm(self.first(x)))
        x = self.again(self.again(x)) + x
        return self.head(x.mean((2, 3)))  # type: ignore[no-any-return]


class Turned(nn.Module):
    """Layers that read positions along the first axis, and examples along the second."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(3, 4), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.layer(x.flatten(1, 2).transpose(0, 1)).tanh()
        return self.head(seen.transpose(0, 1).sum(1))  # type: ignore[no-any-return]


class Direct(nn.Module):
    """A parameter that no known layer uses."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(1, 2, 9))
        self.head = nn.Linear(9, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(x.flatten(1) * self.scale)  # type: ignore[no-any-return]


class Shared(nn.Module):
    """A dense layer for fleets that is called twice."""

    broadcasts_runs = True

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = Dense(9, 9), Dense(9, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(self.head.weight.dim() - 1)
        return self.head(self.layer(self.layer(flat).tanh()).tanh())  # type: ignore[no-any-return]


def mlp() -> nn.Module:
    return MLP(9, CLASSES, hidden=(5, 4))


def dense() -> nn.Module:
    hidden = [nn.Linear(9, 5), nn.LayerNorm(5), nn.Tanh()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(5, CLASSES))


def rows() -> nn.Module:
    hidden = [nn.Linear(3, 4), nn.LayerNorm([3, 4]), nn.LayerNorm(4), nn.Tanh()]
    return nn.Sequential(nn.Flatten(1, 2), *hidden, nn.Flatten(), nn.Linear(12, CLASSES))


def normalised() -> nn.Module:
    stem = [nn.Conv2d(1, 2, 2, bias=False), nn.BatchNorm2d(2), nn.ReLU(inplace=True)]
    flat = [nn.Flatten(), nn.BatchNorm1d(8, affine=True)]
    return nn.Sequential(*stem, *flat, nn.Linear(8, CLASSES))


def grouped() -> nn.Module:
    stem = [nn.Conv2d(1, 2, 2), nn.Conv2d(2, 2, 2, groups=2), nn.ReLU()]
    return nn.Sequential(*stem, nn.Flatten(), nn.Linear(2, CLASSES))


def by_batch() -> nn.Module:
    stem = [nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2, track_running_stats=False), nn.ReLU()]
    return nn.Sequential(*stem, nn.Flatten(), nn.Linear(8, CLASSES))


def frozen() -> nn.Module:
    module = dense()
    next(module.parameters()).requires_grad_(False)
    return module


BUILDS = [
    mlp, Shared, dense, rows, normalised, grouped, by_batch, frozen, Twice, Turned, Direct,
]  # fmt: skip


def made(build: Callable[[], nn.Module]) -> Network:
    network = Network(build, SEEDS, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    for tensors in (network.weights.named(), network.buffers):
        for tensor in tensors.values():
            if tensor.is_floating_point():  # running statistics and scales of any value
                tensor += torch.rand(tensor.shape, dtype=tensor.dtype, generator=generator) / 2
    return network


def examples(count: int = COUNT) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return 3 * torch.rand(2, count, 1, 3, 3, dtype=torch.float64, generator=generator)


def alone(build: Callable[[], nn.Module], network: Network, run: int) -> nn.Module:
    """One network of the fleet as an ordinary module in evaluation mode."""
    module = build().double().eval()
    state = {**network.weights.named(), **network.buffers}
    module.load_state_dict({name: state[name][run].clone() for name in module.state_dict()})
    return module


def slow(
    module: nn.Module, x: Tensor, classes: Sequence[int], draws: Tensor | None = None
) -> dict[str, Tensor]:
    """The definition, one example and one answer at a time; or of answers that are drawn."""
    trained = {n: p for n, p in module.named_parameters() if p.requires_grad}
    total = {name: torch.zeros_like(p) for name, p in trained.items()}
    for number, one in enumerate(x):
        chances = module(one[None].clone())[0, list(classes)].softmax(0).tolist()
        answers = list(enumerate(chances))
        if draws is not None:
            ends = list(accumulate(chances))
            drawn = [sum(end <= u for end in ends) for u in draws[number].tolist()]
            answers = [(answer, 1 / len(drawn)) for answer in drawn]
        for answer, weight in answers:
            log = module(one[None].clone())[0, list(classes)].log_softmax(0)[answer]
            slopes = torch.autograd.grad(log, list(trained.values()))
            for name, slope in zip(trained, slopes, strict=True):
                total[name] += weight * slope.square()
    return total


def compare(ours: dict[str, Tensor], run: int, theirs: dict[str, Tensor]) -> None:
    for name, tensor in ours.items():
        expected = theirs.get(name, torch.zeros_like(tensor[run]))
        torch.testing.assert_close(tensor[run], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("count", [1, 3, COUNT])
def test_it_is_the_sum_over_examples_and_answers(
    build: Callable[[], nn.Module], count: int
) -> None:
    """Three examples have as many positions as `Turned` has along its first axis."""
    network, x = made(build), examples(count)
    before = {name: tensor.clone() for name, tensor in network.buffers.items()}
    found = model_of(network).fisher_information(x).named()
    for run in range(2):
        compare(found, run, slow(alone(build, network, run), x[run], list(range(CLASSES))))
    assert network.module.training
    assert all(torch.equal(tensor, network.buffers[name]) for name, tensor in before.items())
    assert torch.equal(x, examples(count))


@pytest.mark.parametrize("build", [mlp, dense, normalised, Direct])
def test_only_some_classes_may_compete(build: Callable[[], nn.Module]) -> None:
    network, x = made(build), examples()
    classes = torch.tensor([[True, False, True], [False, True, True]])
    found = model_of(network).fisher_information(x, classes).named()
    for run, own in enumerate(([0, 2], [1, 2])):
        compare(found, run, slow(alone(build, network, run), x[run], own))


@pytest.mark.parametrize("build", [mlp, dense, normalised, Direct])
@pytest.mark.parametrize("own", [[0, 1, 2], [0, 2]])
def test_answers_may_be_drawn(build: Callable[[], nn.Module], own: list[int]) -> None:
    network, x = made(build), examples()
    generator = torch.Generator().manual_seed(2)
    draws = torch.rand(2, COUNT, 4, dtype=torch.float64, generator=generator)
    draws[:, 0] = torch.tensor([0.0, 0.5, 0.99, 0.9999])
    classes = torch.tensor([c in own for c in range(CLASSES)]).expand(2, -1)
    found = model_of(network).fisher_information(x, classes, draws)
    for run in range(2):
        module = alone(build, network, run)
        compare(found.named(), run, slow(module, x[run], own, draws[run]))


def test_many_numbers_are_taken_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    network, x = made(normalised), examples()
    at_once = model_of(network).fisher_information(x)
    monkeypatch.setattr(per_example, "NUMBERS_AT_ONCE", 5 * (9 * 4 + 8 + 8 + 24) + 1)
    sizes: list[int] = []
    network.module.register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0])))
    by_part = model_of(network).fisher_information(x)
    assert sizes == [1, 5, 5, 5, 4] * 2
    for one, other in zip(at_once, by_part, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=0)


@pytest.mark.parametrize("build", [dense, rows, normalised, frozen, Twice, partial(ResNet18, 3, 2)])
def test_layers_are_known(build: Callable[[], nn.Module]) -> None:
    """The usual layers need no pass for each example."""
    module = build().eval()
    trained = {n: p for n, p in module.named_parameters() if p.requires_grad}
    channels = 3 if isinstance(module, ResNet18) else 1
    with Layers(trained, 4) as layers:
        logits = module(torch.rand(4, channels, 3, 3))
    assert layers.known
    found = dict(layers.gradients(logits, torch.ones_like(logits)))
    assert found.keys() == trained.keys()


@pytest.mark.parametrize("build", [grouped, by_batch, Turned, Direct])
def test_layers_that_are_not_known(build: Callable[[], nn.Module]) -> None:
    module = build().eval()
    with Layers(dict(module.named_parameters()), 4) as layers:
        module(torch.rand(4, 1, 3, 3))
    assert not layers.known
