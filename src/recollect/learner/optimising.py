"""How a learner moves its weights: the arguments of its optimiser and schedule, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypedDict, final

from recollect.core.fleet_optimiser import DEFAULTS
from recollect.errors import InputError, nearest
from recollect.train.optimisation import NUMBERS, Optimisation

__all__ = ["ADDED", "Numbers", "Optimising", "check_lr"]

# Files that were written before these were added do not have them.
ADDED = ("nesterov", "schedule", "schedule_steps", "numbers")
ENDLESS = 2**53
OTHERS = ("lr", "optimiser", "optimiser_options", "nesterov", "schedule", "schedule_steps")


class Numbers(TypedDict, total=False):
    """The numbers of optimisers and schedules, with the names that `recollect.run` has for them.

    >>> from recollect import ER, MLP, Learner
    >>> options: Numbers = {"momentum": 0.9, "clip": 1.0}
    >>> Learner(MLP(4, 2), ER(), **options).lr
    0.03
    """

    momentum: float
    weight_decay: float
    beta1: float
    beta2: float
    eps: float
    clip: float
    warmup: float
    decay_every: float
    decay_factor: float


@final
@dataclass(frozen=True)
class Optimising:
    """The optimiser and the schedule of a learner by name, their numbers, and the steps of it.

    >>> Optimising.of("adamw", None, False, "cosine", 1000, {"clip": 1.0}).names.text
    'AdamW, cosine per stream'
    """

    names: Optimisation
    numbers: Mapping[str, float]
    schedule_steps: int | None

    @classmethod
    def of(
        cls,
        optimiser: str,
        options: Mapping[str, Any] | None,
        nesterov: bool,
        schedule: str,
        schedule_steps: int | None,
        numbers: Mapping[str, object],
    ) -> Optimising:
        """What these arguments of a learner ask for.

        SGD, Adam and AdamW are those of fleets, unless they are given options of torch's.
        """
        if not isinstance(optimiser, str):
            raise InputError(
                f"the optimiser must be the name of one of torch's, such as 'AdamW', not "
                f"{optimiser!r}"
            )
        if unknown := [name for name in numbers if name not in NUMBERS]:
            near = nearest(unknown[0], [*NUMBERS, *OTHERS])
            hint = f": did you mean {near!r}?" if near else ""
            raise TypeError(
                f"a learner has no argument {unknown[0]!r}{hint} (of optimisers and schedules it "
                f"has {', '.join([*OTHERS, *NUMBERS])})"
            )
        of_fleets = optimiser.lower() in {name.lower() for name in DEFAULTS} and not options
        # A file has lists where there were tuples.
        given = {n: tuple(v) if isinstance(v, list) else v for n, v in (options or {}).items()}
        names = Optimisation(optimiser, nesterov, schedule, options=None if of_fleets else given)
        found = cls(names, names.checked(numbers), schedule_steps)
        found._check_horizon()
        return found

    @property
    def horizon(self) -> int:
        """Over how many steps the schedule runs: more than there will be, if it has no end."""
        return self.schedule_steps or ENDLESS

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments that it was made of, as plain data."""
        names = self.names
        return {
            "optimiser": names.optimiser,
            "optimiser_options": dict(names.options or {}),
            "nesterov": names.nesterov,
            "schedule": names.schedule,
            "schedule_steps": self.schedule_steps,
            "numbers": dict(self.numbers),
        }

    def _check_horizon(self) -> None:
        steps, schedule = self.schedule_steps, self.names.schedule
        if steps is None:
            if schedule == "cosine" or (schedule == "step" and not self.numbers.get("decay_every")):
                other = ", or after how many the rate decays (decay_every=...)"
                raise InputError(
                    f"a stream has no end for which schedule={schedule!r} could be planned: say "
                    f"over how many steps it runs (schedule_steps=...)"
                    f"{other if schedule == 'step' else ''}"
                )
        elif not isinstance(steps, int) or isinstance(steps, bool) or not 0 < steps < ENDLESS:
            raise InputError(f"schedule_steps must be a whole number of at least 1, not {steps!r}")
        elif schedule == "constant":
            raise InputError("schedule_steps is for schedule='step' and schedule='cosine'")


def check_lr(lr: object) -> None:
    """Refuse a learning rate that is not a positive number."""
    if isinstance(lr, bool) or not isinstance(lr, int | float) or not math.isfinite(lr) or lr <= 0:
        raise InputError(f"lr must be a positive number, not {lr!r}")
