"""Optimisers and schedules in fleets: every run is the run of its own with torch's optimiser."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.builders import assert_close, fleet_of, image_stream, whole_and_stopped
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import CosineAnnealingLR, StepLR

import recollect
from recollect import MLP, SGD, DERpp, InputError, Method
from recollect.methods import METHODS
from recollect.train import Job, Run
from recollect.train.optimisation import Optimisation

STEPS, BATCH = 200, 4
CASES: dict[str, tuple[Optimisation, list[dict[str, float]]]] = {
    "momentum": (Optimisation(), [{"momentum": m} for m in (0.9, 0.0, 0.5, 0.99)]),
    "nesterov": (Optimisation(nesterov=True), [{"momentum": 0.9, "weight_decay": w}
                                               for w in (0.0, 1e-3, 1e-2, 0.1)]),
    "adam": (Optimisation("Adam"), [{}, {"beta1": 0.5}, {"weight_decay": 0.1}, {"eps": 1e-3}]),
    "adamw cosine": (Optimisation("AdamW", schedule="cosine"),
                     [{}, {"clip": 0.1}, {"weight_decay": 0.5}, {"clip": 1.0, "beta2": 0.9}]),
    "momentum step": (Optimisation(schedule="step"),
                      [{"momentum": m, "clip": 0.3, "decay_every": 60.0, "decay_factor": f}
                       for m, f in ((0.9, 0.1), (0.0, 0.5), (0.5, 0.3), (0.9, 1.0))]),
}  # fmt: skip


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))


def examples() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(4, STEPS * BATCH, 6, dtype=torch.float64, generator=generator)
    return x, torch.randint(3, (4, STEPS * BATCH), generator=generator)


def alone(
    start: Mapping[str, Tensor], names: Optimisation, numbers: dict[str, float], lr: float,
    x: Tensor, y: Tensor,
) -> nn.Module:  # fmt: skip
    """The same run by torch alone."""
    module = network().double()
    module.load_state_dict(dict(start))
    options: dict[str, Any] = {n: v for n, v in numbers.items()
                               if n in ("momentum", "weight_decay", "eps")}  # fmt: skip
    if names.optimiser == "SGD":
        options["nesterov"] = names.nesterov
    else:
        options["betas"] = (numbers.get("beta1", 0.9), numbers.get("beta2", 0.999))
    optimiser = getattr(torch.optim, names.optimiser)(module.parameters(), lr=lr, **options)
    schedule: Any = None
    if names.schedule == "cosine":
        schedule = CosineAnnealingLR(optimiser, STEPS)
    if names.schedule == "step":
        every, gamma = int(numbers["decay_every"]), numbers["decay_factor"]
        schedule = StepLR(optimiser, every, gamma)
    for first in range(0, STEPS * BATCH, BATCH):
        optimiser.zero_grad()
        loss = cross_entropy(module(x[first : first + BATCH]), y[first : first + BATCH])
        loss.backward()  # type: ignore[no-untyped-call]
        if "clip" in numbers:
            nn.utils.clip_grad_norm_(module.parameters(), numbers["clip"])
        optimiser.step()
        if schedule is not None:
            schedule.step()
    return module


@pytest.mark.parametrize("strategy", ["vmap", "loop"])
@pytest.mark.parametrize("case", CASES)
def test_a_fleet_of_four_moves_as_torch_does(case: str, strategy: Any) -> None:
    names, numbers = CASES[case]
    lr = [0.01, 0.02, 0.005, 0.03]
    fleet = fleet_of([SGD()] * 4, network, lr=lr, steps=STEPS, optimisation=names,
                     numbers=numbers, strategy=strategy)  # fmt: skip
    x, y = examples()
    starts = [{n: t[0].clone() for n, t in fleet.weights.row(k).named().items()} for k in range(4)]
    fleet.learn(x, y, BATCH)
    for k in range(4):
        module = alone(starts[k], names, numbers[k], lr[k], x[k], y[k])
        learned = fleet.weights.row(k).named()
        for name, tensor in module.state_dict().items():
            torch.testing.assert_close(learned[name][0], tensor, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("pnn", "hat", "pc")])
def test_a_run_of_a_fleet_is_the_run_alone(name: str) -> None:
    """Whatever the method, with numbers that differ from run to run."""
    kind: type[Method] = METHODS[name]
    numbers = [{"momentum": 0.9}, {"momentum": 0.5, "weight_decay": 0.01, "clip": 0.5}]
    how: dict[str, Any] = {"steps": 12, "classes": 4, "per_task": 2, "tasks": 2}
    if kind.replay:
        how |= {"memory": 8, "replay": 4}

    def trained(runs: list[int]) -> Any:
        fleet = fleet_of([kind()] * len(runs), lambda: MLP(6, 4, hidden=(5,)), seeds=runs,
                         numbers=[numbers[k] for k in runs], **how)  # fmt: skip
        generator = torch.Generator().manual_seed(4)
        x = torch.randn(2, 2, 24, 6, dtype=torch.float64, generator=generator)[:, runs]
        y = (torch.arange(24) % 2).expand(2, len(runs), 24)
        for task in range(2):
            here, labels = x[task], y[task] + 2 * task

            def pick(index: Tensor, a: Tensor = here, b: Tensor = labels) -> tuple[Tensor, Tensor]:
                rows = torch.arange(len(runs))[:, None]
                return a[rows, index], b[rows, index]

            batch = kind.needs.batch_size or 4
            fleet.start_task(pick, 24, batch)
            fleet.learn(here, labels, batch)
            fleet.end_task(pick, 24, batch)
            fleet.next_task(24)
        return fleet

    both = trained([0, 1])
    for k in range(2):
        one = trained([k])
        for mine, theirs in zip(both.weights.row(k), one.weights, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-9)


def test_weights_that_packnet_gave_away_stay_whatever_the_optimiser() -> None:
    fleet = fleet_of([METHODS["packnet"]()], lambda: MLP(6, 4, hidden=(5,)), classes=4, tasks=2,
                     per_task=2, numbers=[{"momentum": 0.9, "weight_decay": 0.1}])  # fmt: skip
    x, y = torch.rand(1, 40, 6, dtype=torch.float64), torch.randint(2, (1, 40))
    probe = torch.rand(1, 20, 6, dtype=torch.float64)

    def pick(index: Tensor) -> tuple[Tensor, Tensor]:
        return x[0][index], y[0][index]

    fleet.start_task(pick, 40, 4)
    fleet.learn(x, y, 4)
    for _ in range(fleet.end_task(pick, 40, 4)):
        fleet.learn(x, y, 4)
    fleet.next_task(40)
    before = fleet.predict(probe, 0)
    fleet.start_task(pick, 40, 4)
    fleet.learn(x, y + 2, 4)
    torch.testing.assert_close(fleet.predict(probe, 0), before, rtol=0, atol=1e-12)


@pytest.mark.parametrize("per", ["stream", "task"])
def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(per: str, tmp_path: Path) -> None:
    names = Optimisation("AdamW", schedule="cosine", per=per)
    numbers = {"warmup": 3.0, "clip": 1.0}
    runs = tuple(Run(seed, 0.01, DERpp(0.3, 0.5), numbers) for seed in range(2))
    job = Job(image_stream(), runs, batch=5, replay=5, buffer=10, epochs=3, optimisation=names,
              network=lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 6)))  # fmt: skip
    whole, again, stops = whole_and_stopped(job, tmp_path)
    assert again == whole
    assert stops > 1
    assert whole[0].optimiser == f"AdamW, cosine per {per}"
    assert whole[0].hyperparameters["warmup"] == 3.0


def test_optimisers_of_torch_are_for_a_fleet_of_one_and_not_for_experiments() -> None:
    names = Optimisation("RMSprop", options={"alpha": 0.9})
    with pytest.raises(InputError, match="a fleet of one run"):
        fleet_of([SGD()] * 2, network, optimisation=names)
    runs = tuple(Run(seed, 0.01, DERpp(0.3, 0.5)) for seed in range(2))
    with pytest.raises(InputError, match="support SGD, Adam and AdamW"):
        Job(image_stream(), runs, batch=5, replay=5, buffer=10, epochs=1, network=network,
            optimisation=names).check()  # fmt: skip


def test_plain_sgd_is_what_it_was() -> None:
    x, y = examples()
    plain, named = (
        fleet_of([SGD()] * 4, network, **how) for how in ({}, {"numbers": [{"momentum": 0.0}] * 4})
    )
    for fleet in (plain, named):
        fleet.learn(x, y, BATCH)
    for mine, theirs in zip(named.weights, plain.weights, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)
    assert plain.optimiser is None
    assert named.tensors().keys() == plain.tensors().keys(), "no momentum has no average"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_compiled_steps_do_the_same() -> None:
    x, y = examples()
    names, numbers = CASES["adamw cosine"]
    how: dict[str, Any] = {"optimisation": names, "numbers": numbers, "steps": STEPS}
    plain, fast = (
        fleet_of([SGD()] * 4, lambda: MLP(6, 3, hidden=(5,)), compiled=compiled, **how)
        for compiled in (False, True)
    )
    for fleet in (plain, fast):
        fleet.learn(x[:, :80], y[:, :80], BATCH)
    assert_close(fast, plain, 1e-12)


def test_a_grid_over_momentum_is_one_fleet_and_stands_in_the_results() -> None:
    results = recollect.run("seq-digits", "er", buffer=20, seeds=2, lr=0.01, epochs=1,
                            momentum=[0.0, 0.9], weight_decay=1e-4, workers=1)  # fmt: skip
    assert [r.hyperparameters["momentum"] for r in results] == [0.0, 0.0, 0.9, 0.9]
    assert len({r.identity.key_without("seed") for r in results}) == 2
    assert results[0].settings == {"optimiser": "SGD"}
    cosine = recollect.run("seq-digits", "er", buffer=20, seeds=1, lr=0.01, schedule="cosine")
    assert cosine[0].settings == {"optimiser": "SGD", "schedule": "cosine"}
    again = type(cosine[0]).from_json(cosine[0].as_json())
    assert again.settings == cosine[0].settings


def test_a_search_tries_numbers_of_the_optimiser() -> None:
    found = recollect.search("seq-digits", "er", buffer=20, seeds=1, lr=0.01, momentum=[0.0, 0.9],
                             schedule="cosine", workers=1)  # fmt: skip
    assert {run.hyperparameters["momentum"] for run in found.validation} == {0.0, 0.9}
    assert found.best["momentum"] in (0.0, 0.9)
    assert found.results[0].settings == {"optimiser": "SGD", "schedule": "cosine"}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"optimiser": "Adm"}, "Adam"),
        ({"optimiser": "Adam", "momentum": 0.9}, "Adam with schedule 'constant' has no momentum"),
        ({"momentum": 1.0}, "momentum must be at least 0 and below 1"),
        ({"nesterov": True}, "needs a momentum"),
        ({"optimiser": "AdamW", "nesterov": True}, "an option of SGD"),
        ({"schedule": "cosin"}, "cosine"),
        ({"schedule": "cosine", "schedule_per": "epoch"}, "per 'stream' or per 'task'"),
        ({"clip": 0.0}, "clip must be greater than 0"),
        ({"decay_every": 5}, "schedule='step'"),
        ({"momentun": 0.9}, "momentum"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        recollect.run("seq-digits", "er", buffer=20, seeds=1, **given)
