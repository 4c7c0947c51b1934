"""The fleet: which examples it uses, what it keeps, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from recollect import DER, ER, MLP, SGD, DERpp, Fleet, Method
from recollect.errors import InputError

Examples = Callable[..., tuple[Tensor, Tensor]]
Watching = Callable[[], AbstractContextManager[list[int]]]


def fleet_of(methods: list[Method], net: Callable[[], MLP], **changes: Any) -> Fleet:
    runs = len(methods)
    settings = {
        "seeds": list(range(runs)), "lr": [0.1] * runs, "classes": 3, "shape": (6,), "memory": 10,
        "replay": 4, "stored": torch.float64, "dtype": torch.float64, **changes,
    }  # fmt: skip
    return Fleet(methods, net, **settings)


@pytest.mark.parametrize(("n", "steps"), [(20, 2), (23, 3), (3, 1)])
def test_the_ragged_last_batch_is_used(
    n: int, steps: int, tiny_net: Callable[[], MLP], examples: Examples
) -> None:
    """The weights depend on the last example, and the memory has room for all of them."""
    x, y = examples([0, 1], n)
    fleet = fleet_of([ER(), ER()], tiny_net, memory=30)
    fleet.learn(x, y, 10)
    assert (fleet.seen, fleet.steps) == (n, steps)
    assert torch.equal(fleet.memory.fields().x[:, :n], x)
    assert torch.equal(fleet.memory.fields().y[:, :n], y)
    changed = x.clone()
    changed[1, -1] += 1
    other = fleet_of([ER(), ER()], tiny_net, memory=30)
    other.learn(changed, y, 10)
    weight, other_weight = (next(iter(f.weights)) for f in (fleet, other))
    assert torch.equal(weight[0], other_weight[0])
    assert not torch.equal(weight[1], other_weight[1])


def test_draws_come_before_the_batch_is_stored(
    tiny_net: Callable[[], MLP], examples: Examples
) -> None:
    """A method never replays an example in the step in which it arrives."""
    (x, y), replays = examples([0], 60), []

    class Noting(ER):
        def loss(self, step: Any) -> Tensor:
            replays.append((step.replays[0].x[0], step.x[0]))
            return super().loss(step)

    fleet_of([Noting()], tiny_net).learn(x, y, 5)
    assert [len(past) for past, _ in replays] == [0] + [4] * 11
    seen = {tuple(row) for row in x[0, :0].tolist()}
    for past, arrived in replays:
        assert {tuple(row) for row in past.tolist()} <= seen
        seen |= {tuple(row) for row in arrived.tolist()}


def test_logits_of_one_batch_serve_all_runs_and_change_nothing(
    tiny_net: Callable[[], MLP], examples: Examples
) -> None:
    fleet = fleet_of([DER(), DER()], tiny_net)
    x, y = examples([0, 1], 20)
    fleet.learn(x, y, 10)
    before = fleet.weights.snapshot().named()
    shared, each = fleet.logits(x[:1]), fleet.logits(x[:1].expand(2, -1, -1))
    assert shared.shape == (2, 20, 3)
    assert torch.equal(shared, each)
    assert not torch.equal(shared[0], shared[1])
    assert all(torch.equal(t, before[name]) for name, t in fleet.weights.named().items())
    assert (fleet.seen, fleet.steps) == (20, 2)


def test_bytes_stay_bytes(tiny_net: Callable[[], MLP]) -> None:
    x = torch.randint(0, 256, (2, 8, 2, 3), dtype=torch.uint8, generator=torch.manual_seed(0))
    fleet = fleet_of([DERpp(), DERpp()], tiny_net, shape=(2, 3), stored=torch.uint8)
    fleet.learn(x, torch.zeros(2, 8, dtype=torch.int64), 4)
    assert fleet.memory.fields().x.dtype == torch.uint8
    assert torch.equal(fleet.memory.fields().x[:, :8], x)
    assert fleet.bytes_per_run == 10 * (6 + 8 + 3 * 8)


def test_a_method_without_memory_holds_nothing(
    tiny_net: Callable[[], MLP], examples: Examples
) -> None:
    fleet = fleet_of([SGD()], tiny_net, memory=0, replay=0)
    fleet.learn(*examples([0], 25), 10)
    assert (fleet.bytes_per_run, fleet.steps) == (0, 3)


def test_a_memory_smaller_than_the_replay_is_replayed_whole(
    tiny_net: Callable[[], MLP], examples: Examples
) -> None:
    fleet = fleet_of([ER()], tiny_net, memory=3, replay=8)
    fleet.learn(*examples([0], 25), 10)
    sizes = fleet.planner.sizes(fleet.clock)
    read = fleet.planner.plan(fleet.clock, 2, 5, sizes)["read"]
    assert read.sort().values.tolist() == [[[0, 1, 2]]] * 2


def test_a_step_costs_the_same_whatever_the_memory(
    tiny_net: Callable[[], MLP], examples: Examples, sizes_of_results: Watching
) -> None:
    largest = []
    for capacity in (60, 60_000):
        fleet = fleet_of([DERpp(), DERpp()], tiny_net, memory=capacity)
        fleet.learn(*examples([0, 1], 80), 10)
        with sizes_of_results() as sizes:
            fleet.learn(*examples([0, 1], 20), 10)
        largest.append(max(sizes))
    assert largest[0] == largest[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": [0]}, "a method, a seed and a learning rate for every run"),
        ({"lr": [0.1] * 3}, "a method, a seed and a learning rate for every run"),
        ({"memory": 0}, "ER needs a memory and a replay size of at least 1"),
        ({"replay": 0}, "ER needs a memory and a replay size of at least 1"),
    ],
)
def test_what_cannot_be_a_fleet_is_refused(
    changes: dict[str, Any], message: str, tiny_net: Callable[[], MLP]
) -> None:
    with pytest.raises(InputError, match=message):
        fleet_of([ER(), ER()], tiny_net, **changes)


def test_compiling_without_a_compiler_is_refused(
    tiny_net: Callable[[], MLP], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match=r"no C\+\+ compiler was found"):
        fleet_of([SGD()], tiny_net, compiled=True)


class Noisy(nn.Module):
    """Looks dense, but draws random numbers in a function that `vmap` refuses."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(nn.functional.dropout(x, 0.5, self.training))
        return logits


def test_a_network_that_vmap_refuses_runs_one_by_one_and_repeats() -> None:
    def trained(seeds: list[int]) -> Fleet:
        fleet = Fleet(
            [SGD()] * len(seeds), Noisy, seeds=seeds, lr=[0.1] * len(seeds), classes=3, shape=(4,)
        )
        x = torch.linspace(-1, 1, 80).view(1, 20, 4).expand(len(seeds), -1, -1)
        fleet.learn(x, torch.arange(20).expand(len(seeds), -1) % 3, batch=5)
        return fleet

    together, alone = trained([7, 3]), trained([3])
    assert together.network.strategy == "loop"
    for both, one in zip(together.weights, alone.weights, strict=True):
        torch.testing.assert_close(both[1], one[0])
        assert not torch.equal(both[0], both[1])
