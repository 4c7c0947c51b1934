"""The invariant: run k of a fleet equals the same run alone, whatever its company.

`recollect.testing` proves it for every method and kind of network, in fleets of three. Here are
larger fleets, fleets with the same run twice, other examples for every run, and long stretches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import picked
from torch import Tensor, nn

from recollect import DER, ER, MLP, SGD, DERpp, Fleet, Joint, Method
from recollect.memory import Stored
from recollect.methods import (
    AGEM,
    AGEMR,
    CLSER,
    ERACE,
    EWC,
    FDR,
    GEM,
    GSS,
    HAL,
    MER,
    OEWC,
    SCR,
    SI,
    STAR,
    XDER,
    LwF,
    Step,
)
from recollect.methods.er_variants import ERHybrid, ERKMeans, ERMoF, ERRing

pytestmark = pytest.mark.usefixtures("unchecked_steps")

SHAPE, CLASSES = (1, 4, 4), 3
BATCH, CAPACITY, REPLAY, TOTAL = 4, 7, 5, 46  # twelve steps, the last of two examples
SAME = 1e-9


def mlp() -> nn.Module:
    return MLP(16, CLASSES, hidden=(6, 5))


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 6), nn.Tanh(), nn.Linear(6, CLASSES))


def normalised() -> nn.Module:
    convolution = [nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU()]
    return nn.Sequential(*convolution, nn.Flatten(), nn.Linear(12, CLASSES))


NETS: dict[str, Callable[[], nn.Module]] = {"mlp": mlp, "dense": dense, "normalised": normalised}
STRATEGIES = {"mlp": "broadcast", "dense": "vmap", "normalised": "loop"}

# Six runs, all different: their seeds, rates and (where the method has them) alpha and beta.
SEEDS = [0, 5, 1, 2**40, 17, 3]
RATES = [0.1, 0.3, 0.02, 0.1, 0.5, 0.05]
ALPHAS = [0.5, 0.0, 1.3, 0.2, 0.5, 0.9]
BETAS = [1.0, 0.4, 0.0, 0.5, 0.1, 0.7]
METHODS: dict[str, Callable[[int], Method]] = {
    "sgd": lambda run: SGD(),
    "joint": lambda run: Joint(),
    "oewc": lambda run: OEWC(ALPHAS[run], BETAS[run]),
    "ewc": lambda run: EWC(ALPHAS[run]),
    "si": lambda run: SI(ALPHAS[run], 0.1 + BETAS[run]),
    "lwf": lambda run: LwF(ALPHAS[run], 1 + BETAS[run], 0.01),
    "er": lambda run: ER(),
    "mer": lambda run: MER(BETAS[run], ALPHAS[run], nb=2),
    "gem": lambda run: GEM(ALPHAS[run]),
    "agem": lambda run: AGEM(),
    "agem-r": lambda run: AGEMR(),
    "fdr": lambda run: FDR(ALPHAS[run]),
    "fdr in two steps": lambda run: FDR(ALPHAS[run], two_steps=1, training_mode=1),
    "gss": lambda run: GSS(gmbs=3),
    "hal": lambda run: HAL(ALPHAS[run], BETAS[run], 0.1),
    "er-ring": lambda run: ERRing(),
    "er-kmeans": lambda run: ERKMeans(),
    "er-mof": lambda run: ERMoF(),
    "er-hybrid": lambda run: ERHybrid(least=2),
    "er-ace": lambda run: ERACE(),
    "cls-er": lambda run: CLSER(ALPHAS[run], stable_decay=0.5 + BETAS[run] / 2),
    "x-der": lambda run: XDER(ALPHAS[run], BETAS[run], eta=0.1 + BETAS[run]),
    "scr": lambda run: SCR(0.1 + BETAS[run], projection=4),
    "star": lambda run: STAR(ALPHAS[run], 0.1 * BETAS[run], around=2),
    "der": lambda run: DER(ALPHAS[run]),
    "derpp": lambda run: DERpp(ALPHAS[run], BETAS[run]),
}


@dataclass
class Snapshot:
    """What there is to see of a fleet after a step; every tensor has a leading run axis."""

    plan: list[Tensor]
    draws: list[Stored]
    memory: Stored
    weights: dict[str, Tensor]
    buffers: dict[str, Tensor]
    logits: Tensor
    loss: Tensor


class WatchedStep(Step):
    """A step that notes what a method draws."""

    seen: list[Stored]

    def draw(self) -> Stored:
        past = super().draw()
        self.seen.append(Stored({name: tensor.clone() for name, tensor in past.items()}))
        return past


def data(runs: Sequence[int], n: int) -> tuple[Tensor, Tensor]:
    """Bytes and labels that depend on a run's seed alone."""
    x, y = [], []
    for run in runs:
        generator = torch.Generator().manual_seed(SEEDS[run])
        x.append(torch.randint(0, 256, (n, *SHAPE), dtype=torch.uint8, generator=generator))
        y.append(torch.randint(0, CLASSES, (n,), generator=generator))
    return torch.stack(x), torch.stack(y)


def fleet_of(method: str, net: str, runs: Sequence[int], memory: int = CAPACITY) -> Fleet:
    return Fleet(
        [METHODS[method](run) for run in runs], NETS[net], seeds=[SEEDS[run] for run in runs],
        lr=[RATES[run] for run in runs], classes=CLASSES, shape=SHAPE, memory=memory,
        replay=REPLAY, stored=torch.uint8, dtype=torch.float64, tasks=2,
    )  # fmt: skip


def history(method: str, net: str, runs: Sequence[int]) -> list[Snapshot]:
    """Everything that happens to a fleet, step by step."""
    fleet = fleet_of(method, net, runs)
    assert fleet.network.strategy == STRATEGIES[net]
    x, y = data(runs, TOTAL)
    probe = torch.rand(1, 8, *SHAPE, dtype=torch.float64, generator=torch.manual_seed(0))
    first = torch.arange(len(runs))[:, None] * fleet.memory.capacity
    snapshots = []
    with pytest.MonkeyPatch.context() as patch:
        plans: list[Tensor] = []
        plan = fleet.planner.plan

        def noted(*args: Any) -> dict[str, Tensor]:
            found = plan(*args)
            spare = len(runs) * fleet.memory.capacity
            rows = (found["read"][0], found["write"][0])
            plans.extend(torch.where(row == spare, -1, row - first) for row in rows)
            return found

        patch.setattr("recollect.train.stepper.Step", WatchedStep)
        patch.setattr(fleet.planner, "plan", noted)
        half = TOTAL // 2 // BATCH * BATCH
        fleet.start_task(picked(x, y), half, BATCH)
        for start in range(0, TOTAL, BATCH):
            WatchedStep.seen = []
            plans.clear()
            stop = start + BATCH
            if start == half:
                fleet.end_task(picked(x, y), half, BATCH)
                fleet.next_task(half)
                later = TOTAL - half
                fleet.start_task(picked(x[:, half:], y[:, half:]), later, BATCH)
            loss = fleet.learn(x[:, start:stop], y[:, start:stop], BATCH)
            snapshots.append(
                Snapshot(
                    plan=list(plans),
                    draws=together(WatchedStep.seen, len(runs)),
                    memory=Stored({n: t.clone() for n, t in fleet.memory.fields().items()}),
                    weights=fleet.weights.snapshot().named(),
                    buffers={n: t.clone() for n, t in fleet.network.buffers.items()},
                    logits=fleet.logits(probe),
                    loss=loss,
                )
            )
    return snapshots


def together(seen: list[Stored], runs: int) -> list[Stored]:
    """The draws of all runs, also where each run's step is taken on its own."""
    lanes = runs if seen and all(len(draw.x) == 1 for draw in seen) else 1
    draws = len(seen) // lanes
    return [
        Stored({name: torch.cat([part[name] for part in seen[d::draws]]) for name in seen[d]})
        for d in range(draws)
    ]


@cache
def alone(method: str, net: str, run: int) -> list[Snapshot]:
    return history(method, net, [run])


def exactly(ours: Tensor, theirs: Tensor) -> None:
    assert ours.dtype == theirs.dtype
    assert torch.equal(ours, theirs)


def nearly(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=SAME)


def same(ours: Stored, theirs: Stored, run: int) -> None:
    """The same examples exactly; their logits came out of the network, so nearly."""
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        (nearly if name == "logits" else exactly)(tensor[run], theirs[name][0])


def check(fleet: list[Snapshot], method: str, net: str, runs: Sequence[int]) -> None:
    assert len(fleet) == 12
    for k, run in enumerate(runs):
        for now, by_itself in zip(fleet, alone(method, net, run), strict=True):
            for ours, theirs in zip(now.plan, by_itself.plan, strict=True):
                exactly(ours[k], theirs[0])
            for drawn, drawn_alone in zip(now.draws, by_itself.draws, strict=True):
                same(drawn, drawn_alone, k)
            same(now.memory, by_itself.memory, k)
            for name in now.weights:
                nearly(now.weights[name][k], by_itself.weights[name][0])
            for name in now.buffers:
                nearly(now.buffers[name][k], by_itself.buffers[name][0])
            nearly(now.logits[k], by_itself.logits[0])
            nearly(now.loss[k], by_itself.loss[0])


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("runs", [(0, 1, 2, 3, 4, 5), (4, 1, 4)], ids=str)
def test_a_run_of_a_fleet_equals_the_run_alone(net: str, runs: tuple[int, ...]) -> None:
    check(history("derpp", net, runs), "derpp", net, runs)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(sorted(METHODS)), st.lists(st.integers(0, 5), min_size=1, max_size=6))
def test_a_run_equals_itself_in_any_company(method: str, runs: list[int]) -> None:
    check(history(method, "mlp", runs), method, "mlp", runs)


def test_the_runs_are_different_and_something_is_learned() -> None:
    """The tests above would also pass if nothing ever happened."""
    snapshots = [alone("derpp", "mlp", run) for run in range(6)]
    for one in range(6):
        first, last = snapshots[one][0], snapshots[one][-1]
        assert [draw.y.shape[1] for draw in first.draws] == [0, 0]
        assert [draw.y.shape[1] for draw in snapshots[one][1].draws] == [4, 4]
        assert [draw.y.shape[1] for draw in last.draws] == [5, 5]
        assert not torch.equal(last.draws[0].x, last.draws[1].x)
        for other in range(one):
            then = snapshots[other][-1]
            assert not torch.equal(last.plan[0], then.plan[0])
            assert not torch.equal(last.memory.x, then.memory.x)
            assert not torch.allclose(last.logits, then.logits, atol=1e-3)


@pytest.mark.parametrize(
    ("column", "value"), [("ALPHAS", 0.6), ("BETAS", 0.9), ("RATES", 0.11), ("SEEDS", 1)]
)
def test_everything_that_tells_runs_apart_has_an_effect(
    column: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = history("derpp", "mlp", [0])[-1].logits
    monkeypatch.setitem(globals(), column, [value])
    assert not torch.allclose(history("derpp", "mlp", [0])[-1].logits, before, atol=1e-6)


@pytest.mark.parametrize(
    ("method", "net"), [("sgd", "mlp"), ("er", "dense"), ("derpp", "mlp"), ("derpp", "normalised")]
)
def test_one_long_stretch_equals_many_short_ones(method: str, net: str) -> None:
    """However the stream is cut, as long as batches stay whole."""
    runs = (0, 3, 1)
    x, y = data(runs, 530)
    cuts = {"long": [0, 530], "short": [*range(0, 530, BATCH), 530], "uneven": [0, 8, 400, 530]}
    fleets = {}
    for name, places in cuts.items():
        fleet = fleets[name] = fleet_of(method, net, runs, memory=20)
        for start, stop in pairwise(places):
            fleet.learn(x[:, start:stop], y[:, start:stop], BATCH)
    for fleet in (fleets["short"], fleets["uneven"]):
        assert (
            (fleet.steps, fleet.seen) == (fleets["long"].steps, fleets["long"].seen) == (133, 530)
        )
        for name, tensor in fleet.memory.fields().items():
            (nearly if name == "logits" else exactly)(tensor, fleets["long"].memory.fields()[name])
        for name, tensor in fleet.weights.named().items():
            expected = fleets["long"].weights.named()[name]
            torch.testing.assert_close(tensor, expected, rtol=0, atol=1e-12)
