"""The optimiser and learning rate schedule of a learner, with their arguments checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from types import MappingProxyType
from typing import Any, TypedDict, final

import torch

from recollect.core.fleet_optimiser import DEFAULTS
from recollect.core.torch_optimiser import TorchOptimiser
from recollect.core.weights import Gradient, Weights
from recollect.errors import InputError, nearest
from recollect.train.optimisation import NUMBERS, Optimisation

# Arguments that files of older versions do not have.
ADDED = ("nesterov", "schedule", "schedule_steps", "numbers")
ENDLESS = 2**53
WORDS = {"buffer": "memory", "mbs": "replay", "learning_rate": "lr"}  # of recollect.run, of torch
OTHERS = ("lr", "optimiser", "optimiser_options", "nesterov", "schedule", "schedule_steps")


class Numbers(TypedDict, total=False):
    """Optimiser and schedule hyper-parameters of a `Learner`, named as in `recollect.run`.

    Attributes:
        momentum: Momentum of SGD (default 0).
        weight_decay: Weight decay (default 0; 0.01 for AdamW).
        beta1: Decay rate of Adam's mean of gradients (default 0.9).
        beta2: Decay rate of Adam's mean of squared gradients (default 0.999).
        eps: Term added to Adam's denominator (default 1e-8).
        clip: Largest norm of the gradient (default 10; 5 for `target="regression"`; `math.inf`:
            no limit).
        warmup: Number of steps over which the learning rate rises (default 0).
        decay_every: Steps between decays of the schedule "step".
        decay_factor: Factor by which the schedule "step" decays the rate (default 0.1).

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
    """An optimiser and a schedule by name, their hyper-parameters, and the schedule's length.

    >>> Optimising.of("adamw", None, False, "cosine", 1000, {"clip": 1.0}).names.text
    'AdamW, cosine per stream'
    """

    names: Optimisation
    numbers: Mapping[str, float]
    schedule_steps: int | None
    assumed: frozenset[str] = field(default=frozenset(), compare=False)  # numbers not given

    @classmethod
    def of(
        cls,
        optimiser: str,
        options: Mapping[str, Any] | None,
        nesterov: bool,
        schedule: str,
        schedule_steps: int | None,
        numbers: Mapping[str, object],
        defaults: Mapping[str, float] = MappingProxyType({}),
    ) -> Optimising:
        """Check the optimiser arguments of a learner.

        SGD, Adam and AdamW are this library's own implementations, unless `options` of torch's
        optimiser are given.
        """
        if not isinstance(optimiser, str):
            raise InputError(
                f"the optimiser must be the name of an optimiser in torch.optim, such as 'AdamW', "
                f"not {optimiser!r}"
            )
        of_fleets = optimiser.lower() in {name.lower() for name in DEFAULTS} and not options
        # JSON files have lists in place of tuples.
        given = {n: tuple(v) if isinstance(v, list) else v for n, v in (options or {}).items()}
        names = Optimisation(optimiser, nesterov, schedule, options=None if of_fleets else given)
        assumed = frozenset(defaults.keys() - numbers.keys())
        found = cls(names, names.checked({**defaults, **numbers}), schedule_steps, assumed)
        found._check_horizon()
        if not of_fleets:  # let torch check the options now instead of at the first step
            TorchOptimiser(optimiser, Weights({"weight": torch.zeros(1, 1)}), given)
        return found

    def check_growth(self) -> None:
        """Raise an `InputError` if the optimiser's state cannot grow with the number of classes.

        A step on a small weight shows whether its state has other shapes than the weight.
        """
        options, shape = self.names.options, (1, 3, 2)
        if options is None:  # the state of this library's optimisers has the shapes of the weights
            return
        weights = Weights({"weight": torch.ones(shape)})
        optimiser = TorchOptimiser(self.names.optimiser, weights, options)
        try:
            optimiser.descend(weights, Gradient({"weight": torch.ones(shape)}), torch.tensor([0.1]))
        except Exception:  # options that fail at a step, which reports it
            return
        if any(part.dim() and part.shape != shape[1:] for part in optimiser.state.values()):
            raise InputError(
                f"{self.names.optimiser} has state whose shape cannot grow with the number of "
                f"classes: list all classes (classes=[...]), or choose another optimiser"
            )

    @property
    def horizon(self) -> int:
        """Number of steps over which the schedule runs; practically endless if not given."""
        return self.schedule_steps or ENDLESS

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as plain data, for a file."""
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
                other = ", or the number of steps between decays (decay_every=...)"
                raise InputError(
                    f"schedule={schedule!r} needs a length, since a stream has no known end: pass "
                    f"the number of steps it runs over (schedule_steps=...)"
                    f"{other if schedule == 'step' else ''}"
                )
        elif not isinstance(steps, int) or isinstance(steps, bool) or not 0 < steps < ENDLESS:
            raise InputError(f"schedule_steps must be a whole number of at least 1, not {steps!r}")
        elif schedule == "constant":
            raise InputError(
                "schedule_steps has no effect on a constant learning rate: leave it out, or choose "
                "schedule='step' or schedule='cosine'"
            )


def check_names(numbers: Iterable[str], learner: Callable[..., object]) -> None:
    """Raise a `TypeError` for an unknown argument of a learner's class."""
    for name in numbers:
        if name not in NUMBERS:
            known = {n: n for n in (*NUMBERS, *signature(learner).parameters) if n != "numbers"}
            near = nearest(name, known | WORDS)
            near = near and (known | WORDS)[near]
            hint = f": did you mean {near!r}?" if near else ""
            raise TypeError(
                f"Learner has no argument {name!r}{hint} (its arguments for optimisers and "
                f"schedules are {', '.join([*OTHERS, *NUMBERS])})"
            )


def check_lr(lr: object) -> None:
    """Refuse a learning rate that is not a positive number."""
    if isinstance(lr, bool) or not isinstance(lr, int | float) or not math.isfinite(lr) or lr <= 0:
        raise InputError(f"lr must be a positive number, not {lr!r}")
