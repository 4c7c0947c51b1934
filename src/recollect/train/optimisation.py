"""The optimiser and learning rate schedule of a fleet."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recollect.core.fleet_optimiser import DEFAULTS, FleetOptimiser
from recollect.core.torch_optimiser import Optimiser, TorchOptimiser, torch_optimisers
from recollect.core.weights import Weights
from recollect.errors import InputError, unknown_name

OVER = ("stream", "task")
SCHEDULES = ("constant", "step", "cosine")
# Settings that may differ between the runs of a fleet; by default a step schedule has three levels.
SCHEDULE_SETTINGS = {"warmup": 0.0, "decay_every": 0.0, "decay_factor": 0.1}
PLAIN = "sgd"

# The settings that may differ between the runs of a fleet, with help texts.
NUMBERS = {
    "momentum": "momentum of SGD",
    "weight_decay": "weight decay (SGD, Adam, AdamW)",
    "beta1": "decay of Adam's running mean of gradients",
    "beta2": "decay of Adam's running mean of squared gradients",
    "eps": "constant added to Adam's denominator",
    "clip": "maximum gradient norm",
    "warmup": "steps of linear learning rate warm-up",
    "decay_every": "steps between decays of schedule step (default: a third of all)",
    "decay_factor": "factor of each decay of schedule step (default: 0.1)",
}


@dataclass(frozen=True)
class Optimisation:
    """An optimiser (SGD, Adam or AdamW) and a schedule (constant, step or cosine), by name.

    `per` says whether a schedule runs once over the `stream` or restarts in every `task`. Settings
    such as the momentum belong to single runs (`NUMBERS`). With `options`, the optimiser is any of
    torch's with these arguments, for a single run.

    >>> Optimisation("AdamW", schedule="cosine", per="task").text
    'AdamW, cosine per task'
    >>> Optimisation.read("SGD nesterov, constant").nesterov, Optimisation().text
    (True, 'sgd')
    """

    optimiser: str = "SGD"
    nesterov: bool = False
    schedule: str = "constant"
    per: str = "stream"
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        names = DEFAULTS if self.options is None else torch_optimisers()
        known = {name.lower(): name for name in names}
        if str(self.optimiser).lower() not in known:
            raise unknown_name("optimiser", str(self.optimiser), names)
        object.__setattr__(self, "optimiser", known[str(self.optimiser).lower()])
        if self.schedule not in SCHEDULES:
            raise unknown_name("schedule", str(self.schedule), SCHEDULES)
        if self.per not in OVER:
            raise InputError(f"a schedule must be per 'stream' or per 'task', not {self.per!r}")
        if self.nesterov and self.optimiser != "SGD":
            raise InputError(f"Nesterov momentum is an option of SGD, not of {self.optimiser}")
        if self.nesterov and self.options is not None:
            raise self.foreign("nesterov")

    @property
    def text(self) -> str:
        """The optimiser and schedule in one line, as in files; plain SGD is 'sgd'."""
        if self == Optimisation():
            return PLAIN
        plain = self.schedule == "constant" and self.per == "stream"  # per task: its warm-up is
        rate = self.schedule if plain else f"{self.schedule} per {self.per}"
        return f"{self.optimiser}{' nesterov' if self.nesterov else ''}, {rate}"

    @classmethod
    def read(cls, text: str) -> Optimisation:
        """Parse `text`; anything else is plain SGD."""
        name, _, rate = text.partition(", ")
        schedule, _, per = rate.partition(" per ")
        if schedule not in SCHEDULES:
            return cls()
        return cls(name.removesuffix(" nesterov"), name.endswith(" nesterov"), schedule,
                   per or "stream")  # fmt: skip

    @property
    def settings(self) -> dict[str, Any]:
        """The optimiser, and the other arguments that differ from their defaults."""
        names = {"optimiser": self.optimiser, "nesterov": self.nesterov,
                 "schedule": self.schedule, "schedule_per": self.per}  # fmt: skip
        usual = {"nesterov": False, "schedule": "constant", "schedule_per": "stream"}
        return {name: value for name, value in names.items() if usual.get(name) != value}

    @property
    def numbers(self) -> tuple[str, ...]:
        """The names of the settings that runs may have."""
        step = ("decay_every", "decay_factor") if self.schedule == "step" else ()
        own = DEFAULTS[self.optimiser] if self.options is None else ()
        return (*own, "clip", "warmup", *step)

    def foreign(self, name: str) -> InputError:
        """The error for a setting that the runs may not have."""
        if self.options is not None and not name.startswith("decay_"):
            return InputError(
                f"{self.optimiser} takes {name} among optimiser_options, as torch calls it"
            )
        chosen_by = "schedule='step'" if name.startswith("decay_") else "another optimiser"
        return InputError(
            f"{self.optimiser} with schedule {self.schedule!r} has no {name}: it belongs to "
            f"{chosen_by}"
        )

    def checked(self, given: Mapping[str, object]) -> dict[str, float]:
        """Validate the settings of one run and convert them to floats.

        An infinite `clip` means no clipping, and is left out.
        """
        found: dict[str, float] = {}
        for name, value in given.items():
            if name not in self.numbers:
                raise self.foreign(name)
            if not isinstance(value, int | float | np.integer | np.floating) or isinstance(
                value, bool
            ):
                raise InputError(f"{name} must be a number, not {value!r}")
            if name == "clip" and value == math.inf:
                continue
            found[name] = float(value)
            if not math.isfinite(value) or value < 0:
                raise InputError(f"{name} must be at least 0 and finite, not {value:g}")
        self.check(found)
        return found

    def check(self, given: Mapping[str, float]) -> None:
        """Raise an `InputError` for settings that are invalid or inconsistent."""
        if self.nesterov and not given.get("momentum"):
            raise InputError("Nesterov momentum needs a momentum above 0, such as 0.9")
        for name in ("momentum", "beta1", "beta2"):
            if not 0 <= given.get(name, 0.0) < 1:
                raise InputError(f"{name} must be at least 0 and below 1, not {given[name]:g}")
        if given.get("clip") == 0:
            raise InputError("clip must be greater than 0: leave it out for no clipping")

    def start(
        self, weights: Weights, given: Sequence[Mapping[str, float]], trained: Collection[str]
    ) -> Optimiser | None:
        """Create the optimiser of the `trained` weights for these settings; None for plain SGD."""
        if self.options is not None:
            return TorchOptimiser(self.optimiser, weights, self.options, given[0].get("clip"))
        own = {"clip", *DEFAULTS[self.optimiser]}
        if self.optimiser == "SGD" and not any(own & each.keys() for each in given):
            return None
        settings = [{n: v for n, v in each.items() if n in own} for each in given]
        return FleetOptimiser.of(self.optimiser, weights, settings, self.nesterov, trained)

    def rates(self, like: Tensor, given: Sequence[Mapping[str, float]]) -> RateSchedule | None:
        """Create the schedule for these settings; None if the learning rate is constant."""
        if self.schedule == "constant" and not any("warmup" in each for each in given):
            return None
        columns = {n: [each.get(n, preset) for each in given]
                   for n, preset in SCHEDULE_SETTINGS.items()}  # fmt: skip
        return RateSchedule(self.schedule, {n: like.new_tensor(c) for n, c in columns.items()})


PLAIN_SGD = Optimisation()


@dataclass
class RateSchedule:
    """The learning rate factors of every run; `begin` sets the first step and the length."""

    schedule: str
    settings: Mapping[str, Tensor]
    first: int = field(default=0, init=False)
    total: int = field(default=1, init=False)

    def begin(self, first: int, total: int) -> None:
        """Start the schedule at step `first`, over `total` steps."""
        self.first, self.total = first, max(total, 1)

    def factors(self, step: int, steps: int) -> Tensor:
        """The factors of the next steps, `[steps, K]`."""
        device = self.settings["warmup"].device
        when = torch.arange(step - self.first, step - self.first + steps, device=device)
        return rate_factors(self.schedule, when, self.total, self.settings)


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
