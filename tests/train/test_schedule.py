"""Schedules against torch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LRScheduler, StepLR

from recollect.errors import InputError
from recollect.train.optimisation import SCHEDULE_SETTINGS, SCHEDULES, rate_factors

TOTAL = 50


def settings(**runs: list[float]) -> dict[str, torch.Tensor]:
    count = max(map(len, runs.values()), default=1)
    columns = {n: runs.get(n, [preset] * count) for n, preset in SCHEDULE_SETTINGS.items()}
    return {n: torch.tensor(c, dtype=torch.float64) for n, c in columns.items()}


def of_torch(make: type[LRScheduler], **options: float) -> list[float]:
    optimiser = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = make(optimiser, **options)  # type: ignore[arg-type]
    factors = []
    for _ in range(TOTAL):
        factors.append(float(schedule.get_last_lr()[0]))
        optimiser.step()
        schedule.step()
    return factors


def test_cosine_and_step_are_those_of_torch() -> None:
    steps = torch.arange(TOTAL)
    ours = rate_factors("cosine", steps, TOTAL, settings())[:, 0]
    theirs = torch.tensor(of_torch(CosineAnnealingLR, T_max=TOTAL), dtype=torch.float64)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)
    told = settings(decay_every=[7.0, 20.0], decay_factor=[0.5, 0.1])
    ours = rate_factors("step", steps, TOTAL, told)
    for run, (size, gamma) in enumerate([(7, 0.5), (20, 0.1)]):
        expected = torch.tensor(of_torch(StepLR, step_size=size, gamma=gamma), dtype=torch.float64)
        torch.testing.assert_close(ours[:, run], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_warm_up_rises_to_one_and_leaves_the_rest_to_the_schedule(schedule: str) -> None:
    told = settings(warmup=[10.0, 0.0])
    found = rate_factors(schedule, torch.arange(TOTAL), TOTAL, told)
    torch.testing.assert_close(found[:10, 0], torch.arange(1, 11, dtype=torch.float64) / 10)
    shorter = rate_factors(schedule, torch.arange(TOTAL - 10), TOTAL - 10, settings())
    torch.testing.assert_close(found[10:, 0], shorter[:, 0])
    assert found[0, 1] == 1


def test_after_the_last_step_a_schedule_stays_where_it_ended() -> None:
    late = torch.tensor([TOTAL, TOTAL + 1, 10 * TOTAL])
    assert rate_factors("cosine", late, TOTAL, settings()).abs().max() < 1e-12
    assert rate_factors("constant", late, TOTAL, settings()).flatten().tolist() == [1.0] * 3


def test_an_unknown_schedule_gets_a_suggestion() -> None:
    with pytest.raises(InputError, match="cosine"):
        rate_factors("cosin", torch.arange(3), 3, settings())
