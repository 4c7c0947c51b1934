"""Build a `Learner` for tabular data from the arguments common to all adapters."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from recollect.errors import InputError
from recollect.learner import Learner, Numbers
from recollect.methods import ClosedForm, Method, method
from recollect.methods.usual import USUAL
from recollect.nets import MLP, Standardise

# Clipping bound in standard deviations. With a larger one, a few extreme features occasionally make
# training diverge: with 10, 3 of 300 seeds on 2,000 rows of River's ImageSegments; with 3, none.
LIMIT = 3.0
HIDDEN = (100, 100)


@dataclass(eq=False, repr=False)
class Arguments:
    """Arguments common to all adapters; scikit-learn and River read them from the signature."""

    hidden: Sequence[int] | None = None
    module: Callable[[int, int], nn.Module] | None = None
    method: str | Method | None = None
    memory: int | str = 500
    lr: float = 0.1
    replay: int = 32
    optimiser: str = "SGD"
    optimiser_options: Mapping[str, Any] | None = None
    standardise: bool = field(default=True, kw_only=True)
    device: torch.device | str = field(default="cpu", kw_only=True)
    momentum: float | None = field(default=None, kw_only=True)
    nesterov: bool = field(default=False, kw_only=True)
    weight_decay: float | None = field(default=None, kw_only=True)
    beta1: float | None = field(default=None, kw_only=True)
    beta2: float | None = field(default=None, kw_only=True)
    eps: float | None = field(default=None, kw_only=True)
    clip: float | None = field(default=None, kw_only=True)
    schedule: str = field(default="constant", kw_only=True)
    schedule_steps: int | None = field(default=None, kw_only=True)
    warmup: float | None = field(default=None, kw_only=True)
    decay_every: float | None = field(default=None, kw_only=True)
    decay_factor: float | None = field(default=None, kw_only=True)


def learner_for(
    arguments: Arguments,
    inputs: int,
    outputs: int,
    *,
    seed: int,
    classes: Sequence[Hashable] | None = None,
    target: str = "class",
) -> Learner:
    """Build a learner for rows of `inputs` features; the seed determines all its randomness."""
    given = {name: _plain(getattr(arguments, name)) for name in Numbers.__annotations__}
    numbers: Any = {name: value for name, value in given.items() if value is not None}
    method = _method(arguments.method)
    return Learner(
        network_for(arguments, inputs, outputs, seed),
        method,
        memory=_plain(arguments.memory) if method.replay else None,
        lr=_plain(arguments.lr),
        seed=seed,
        replay=_plain(arguments.replay),
        optimiser=arguments.optimiser,
        optimiser_options=arguments.optimiser_options,
        nesterov=bool(arguments.nesterov),
        schedule=str(arguments.schedule),
        schedule_steps=_plain(arguments.schedule_steps),
        classes=classes,
        target=target,
        device=arguments.device,
        on_outlier="learn",  # both libraries expect every row to be learned or refused
        **numbers,
    )


def network_for(arguments: Arguments, inputs: int, outputs: int, seed: int) -> nn.Module:
    """Build the network, preceded by a layer that standardises the features.

    The default network computes in float64: otherwise the prediction for a row would depend on the
    other rows of its batch by more than the estimator checks of both libraries allow.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if arguments.module is None:
            given = arguments.hidden
            if given is None:  # a closed-form head would never train hidden layers
                given = () if isinstance(_method(arguments.method), ClosedForm) else HIDDEN
            if not isinstance(given, Iterable):
                raise InputError(f"hidden must be a list of layer sizes, not {given!r}")
            hidden = [whole(size, "a size in hidden") for size in given]
            network: nn.Module = MLP(inputs, outputs, hidden).double()
        elif isinstance(arguments.module, nn.Module):
            raise InputError(
                "module must be a function (inputs, outputs) -> torch.nn.Module, not a network"
            )
        else:
            network = arguments.module(inputs, outputs)
    if not isinstance(network, nn.Module):
        raise InputError(
            f"module must be a function (inputs, outputs) -> torch.nn.Module: it returned "
            f"{type(network).__name__}"
        )
    if not arguments.standardise:
        return network
    first = next(network.parameters(), torch.zeros(())).dtype
    return nn.Sequential(Standardise(inputs, limit=LIMIT).to(first), network)


def whole(number: object, name: str) -> int:
    """Check that a Python or NumPy number is an integer of at least 1, and return it as an int."""
    found = _plain(number)
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise InputError(f"{name} must be a whole number of at least 1, not {number!r}")
    return found


def _method(given: str | Method | None) -> Method:
    if given is None:
        return USUAL
    return method(given)() if isinstance(given, str) else given


def _plain(value: Any) -> Any:
    # Scikit-learn's parameter searches pass NumPy scalars.
    return value.item() if isinstance(value, np.generic) else value
