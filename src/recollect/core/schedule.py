"""Learning rate schedules: warm-up, and constant, step or cosine decay."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from recollect.errors import unknown_name

__all__ = ["SCHEDULES", "SCHEDULE_SETTINGS", "rate_factors"]

SCHEDULES = ("constant", "step", "cosine")
# Settings that may differ between the runs of a fleet; by default a step schedule has three levels.
SCHEDULE_SETTINGS = {"warmup": 0.0, "decay_every": 0.0, "decay_factor": 0.1}


def rate_factors(
    schedule: str, steps: Tensor, total: int, settings: Mapping[str, Tensor]
) -> Tensor:
    """The factors `[n, K]` of the learning rate at `steps` `[n]` out of `total`.

    The factor rises linearly to 1 over `warmup` steps. Then it is constant (`constant`), is
    multiplied by `decay_factor` every `decay_every` steps (`step`; 0 means a third of the steps),
    or decays to zero along half a cosine (`cosine`).

    >>> settings = {n: torch.tensor([v]) for n, v in SCHEDULE_SETTINGS.items()}
    >>> rate_factors("cosine", torch.arange(0, 9, 2), 8, settings).squeeze(1)
    tensor([1.0000, 0.8536, 0.5000, 0.1464, 0.0000])
    >>> rate_factors("step", torch.arange(0, 9, 2), 9, settings).squeeze(1)
    tensor([1.0000, 1.0000, 0.1000, 0.0100, 0.0100])
    """
    warmup, every, factor = (settings[name] for name in SCHEDULE_SETTINGS)
    now = steps.to(warmup.dtype)[:, None]
    left = (total - warmup).clamp(min=1)
    since = (now - warmup).clamp(min=0).minimum(left)
    if schedule == "constant":
        after = torch.ones_like(since)
    elif schedule == "step":
        every = torch.where(every > 0, every, (left / 3).ceil())
        after = factor ** (since / every).floor()
    elif schedule == "cosine":
        after = (1 + torch.cos(torch.pi * since / left)) / 2
    else:
        raise unknown_name("schedule", schedule, SCHEDULES)
    return torch.where(now < warmup, (now + 1) / warmup.clamp(min=1), after)
