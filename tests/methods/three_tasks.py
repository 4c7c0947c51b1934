"""Three tasks of two classes each, for methods that predict by task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tests import builders
from torch import Tensor

from recollect import Fleet, Method

CLASSES, BATCH, COUNT, TASKS = 6, 4, 26, 3
SEEDS, RATES = [7, 0, 2**40, 3], [0.3, 0.1, 0.5, 0.2]
PROBE = torch.rand(1, 9, 3, 4, 4, dtype=torch.float64, generator=torch.manual_seed(5))


def examples_of(task: int, runs: Sequence[int] = (0,)) -> tuple[Tensor, Tensor]:
    """Images and labels of two classes that depend on the task and on a run's seed."""
    x, y = [], []
    for run in runs:
        generator = torch.Generator().manual_seed(SEEDS[run] + 100 * task)
        x.append(torch.rand(COUNT, 3, 4, 4, dtype=torch.float64, generator=generator))
        y.append(torch.randint(2 * task, 2 * task + 2, (COUNT,), generator=generator))
    return torch.stack(x), torch.stack(y)


def fleet_of(
    methods: Sequence[Method], network: builders.Build, runs: Sequence[int], **ways: Any
) -> Fleet:
    given = {"classes": CLASSES, "shape": (3, 4, 4), "tasks": TASKS, **ways}
    seeds, rates = [SEEDS[run] for run in runs], [RATES[run] for run in runs]
    return builders.fleet_of(methods, network, seeds=seeds, lr=rates, **given)
