"""A learner for rows of numbers, from the arguments that the adapters share."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from recollect.errors import InputError
from recollect.learner import Learner, Numbers
from recollect.methods import Method, method
from recollect.nets import MLP, Standardise

__all__ = ["Arguments", "learner_for", "network_for", "whole"]

# In deviations. A few features further out make steps of the usual rate so large that training
# diverges now and then: 3 of 300 seeds on 2,000 rows of River's ImageSegments with 10, none with 3.
LIMIT = 3.0


@dataclass(eq=False, repr=False)
class Arguments:
    """The arguments that every adapter has; both libraries read them from the signature."""

    hidden: Sequence[int] = (100, 100)
    module: Callable[[int, int], nn.Module] | None = None
    method: str | Method = "derpp"
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
    """A learner of rows of `inputs` numbers; the seed decides all that is random in it."""
    given = {name: _plain(getattr(arguments, name)) for name in Numbers.__annotations__}
    numbers: Any = {name: value for name, value in given.items() if value is not None}
    return Learner(
        network_for(arguments, inputs, outputs, seed),
        method(arguments.method)() if isinstance(arguments.method, str) else arguments.method,
        memory=_plain(arguments.memory),
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
        on_outlier="learn",  # these libraries expect every row to be learned, or an error
        **numbers,
    )


def network_for(arguments: Arguments, inputs: int, outputs: int, seed: int) -> nn.Module:
    """The network, with a layer before it that brings features of any scale to one.

    The network of `hidden` computes in 64 bits, so that what is predicted for a row does not depend
    on the rows beside it by more than these libraries allow.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if arguments.module is None:
            if not isinstance(arguments.hidden, Iterable):
                raise InputError(
                    f"hidden must list the sizes of layers, not be {arguments.hidden!r}"
                )
            hidden = [whole(size, "a size in hidden") for size in arguments.hidden]
            network: nn.Module = MLP(inputs, outputs, hidden).double()
        elif isinstance(arguments.module, nn.Module):
            raise InputError(
                "module must be a function (inputs, outputs) -> torch.nn.Module, not a network"
            )
        else:
            network = arguments.module(inputs, outputs)
    if not isinstance(network, nn.Module):
        raise InputError(
            f"module must be a function (inputs, outputs) -> torch.nn.Module: it gave "
            f"{type(network).__name__}"
        )
    if not arguments.standardise:
        return network
    first = next(network.parameters(), torch.zeros(())).dtype
    return nn.Sequential(Standardise(inputs, limit=LIMIT).to(first), network)


def whole(number: object, name: str) -> int:
    """A whole number of at least 1, from Python or numpy."""
    found = _plain(number)
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise InputError(f"{name} must be a whole number of at least 1, not {number!r}")
    return found


def _plain(value: Any) -> Any:
    """A number as Python has it: a search over parameters gives numpy's."""
    return value.item() if isinstance(value, np.generic) else value
