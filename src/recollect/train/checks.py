"""Validation of a fleet's arguments, before anything changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from recollect.core.images import as_input
from recollect.core.network import Network
from recollect.core.targets import CLASS, Target
from recollect.errors import InputError
from recollect.memory import Clock, Policy
from recollect.methods import Classifier, Method, static

FLAT = (
    " (examples are passed as they are: linear layers need nn.Flatten() first, convolutions "
    "channels [C, H, W])"
)
ZEROS = " (it was called with examples of zeros: if it accepts others, pass one as example=...)"


def check_runs(
    methods: Sequence[Method],
    seeds: Sequence[int],
    lr: Sequence[float],
    memory: int,
    replay: int,
    alone: bool,
) -> None:
    """Raise an `InputError` for runs that cannot be trained as one fleet."""
    if not len(methods) == len(seeds) == len(lr) or not methods:
        raise InputError(
            f"a fleet needs a method, a seed and a learning rate for every run, not {len(methods)} "
            f"methods, {len(seeds)} seeds and {len(lr)} learning rates"
        )
    for rate in lr:
        if not (math.isfinite(rate) and rate >= 0):
            raise InputError(f"a learning rate must be at least 0 and finite, not {rate}")
    if alone and len(seeds) > 1:
        raise InputError(
            f"torch's optimisers and the guard only support a fleet of one run, not {len(seeds)}"
        )
    kind = type(methods[0])
    if any(type(method) is not kind for method in methods):
        raise InputError(
            "the runs of a fleet must have the same method: train other methods in another fleet"
        )
    for name in static(kind):
        if len({getattr(method, name) for method in methods}) > 1:
            raise InputError(
                f"the runs of a fleet must have the same {name}, which is static: train other "
                f"values in another fleet"
            )
    if kind.replay is not None and (memory < 1 or replay < 1):
        raise InputError(f"{kind.title} needs a memory and a replay size of at least 1")


def check_target(method: Method, policy: Policy | None, target: Target) -> None:
    """Raise an `InputError` if a method or memory policy does not support the target."""
    if target.classes:
        return
    what = "weighted examples" if target.name == "class" else f"the target {target.name!r}"
    if isinstance(method, Classifier):
        raise InputError(
            f"{method.title} needs the class of every example, so it cannot learn from {what}: "
            f"choose a method without this restriction, such as DER++ or ER"
        )
    if policy is not None and policy.uses_labels:
        raise InputError(
            f"the memory policy {type(policy).__name__} needs classes, so it cannot store "
            f"{what}: use a reservoir (balanced=0)"
        )


def check_state(kind: type[Method], state: Mapping[str, Tensor], runs: int) -> None:
    """Raise an `InputError` for state without a run axis."""
    for name, tensor in state.items():
        if tensor.dim() == 0 or len(tensor) != runs:
            raise InputError(
                f"the state {name!r} of {kind.title} has the shape {list(tensor.shape)} for {runs} "
                f"runs: make it [K, ...], such as torch.zeros(spec.runs)"
            )


def check_no_gradient(kind: type[Method], state: Mapping[str, Tensor]) -> None:
    """Raise an `InputError` for state that requires a gradient."""
    for name, tensor in state.items():
        if tensor.requires_grad:
            raise InputError(
                f"the state {name!r} of {kind.title} was set to a value with a gradient: "
                f"detach the value first, as in loss.detach()"
            )


def check_batch(x: Tensor, y: Tensor, batch: int, runs: int, outputs: int, target: Target) -> None:
    """Raise an `InputError` for examples that a fleet cannot learn from."""
    if batch < 1:
        raise InputError(f"a batch must have at least 1 example, not {batch}")
    shape = () if target is CLASS else target.layout(outputs)[0]
    if y.dim() != 2 + len(shape) or x.shape[:2] != y.shape[:2] or len(y) != runs:
        size = "".join(f", {each}" for each in shape)
        raise InputError(
            f"x must be [{runs}, n, ...] and y [{runs}, n{size}] for {runs} runs, "
            f"not {list(x.shape)} and {list(y.shape)}"
        )
    target.check(y, outputs)


def check_tasks(kind: type[Method], clock: Clock) -> None:
    """Raise an `InputError` if a method that needs the task has finished all of its tasks."""
    if kind.needs.task_id and clock.task >= clock.tasks:
        raise InputError(
            f"{kind.title} has seen all of its {clock.tasks} tasks: pass the total number of tasks "
            f"when it is created"
        )


def check_network(
    network: Network,
    logits: Callable[[Tensor], Tensor],
    x: Tensor,
    outputs: int | None,
    *,
    zeros: bool,
) -> int:
    """Check that a network accepts examples and has `outputs` outputs; return their number.

    Args:
        network: The networks of all runs.
        logits: Computes their logits.
        x: Examples to try them on, `[K, 2, ...]`.
        outputs: The expected number of outputs; None for any.
        zeros: Whether these are zeros, because no example was given.
    """
    packing = network.packing
    examples = (
        f"examples of shape {list(x.shape[2:])}" if packing is None else f"examples, each {packing}"
    )
    hint = ZEROS if zeros else ""
    try:
        network.settle(as_input(x, network.dtype))
        found = list(logits(x).shape[1:])
    except (torch.OutOfMemoryError, MemoryError):
        raise
    except InputError as error:
        raise InputError(f"{error}: [n, {outputs}] is expected for n {examples}") from None
    except (AttributeError, TypeError) as error:
        raise InputError(
            f"the network must return a tensor of logits, [n, {outputs}], for n {examples}, but "
            f"fails: {error}{hint}"
        ) from error
    except Exception as error:  # the network may raise anything
        why = str(error).partition("\n")[0] or type(error).__name__
        if packing is None and x.dim() > 3:
            hint = FLAT + hint
        raise InputError(f"the network does not accept {examples}: {why}{hint}") from error
    if len(found) != 2 or (outputs is not None and found[1] != outputs):
        raise InputError(f"the network must return {outputs} logits per example, not {found[1:]}")
    return found[1]


def check_alike(mine: Mapping[str, Tensor], saved: Mapping[str, Tensor]) -> None:
    """Raise an `InputError` if a saved state belongs to another network or method."""
    if mine.keys() != saved.keys():
        name = min(mine.keys() ^ saved.keys())
        where = "missing here" if name in saved else "missing in it"
        raise InputError(f"the saved state belongs to another network or method: {name} is {where}")
    for name, tensor in mine.items():
        theirs = saved[name]
        if (tensor.shape, tensor.dtype) != (theirs.shape, theirs.dtype):
            raise InputError(
                f"the saved {name} is {list(theirs.shape)} of {theirs.dtype}, but should be "
                f"{list(tensor.shape)} of {tensor.dtype}: it belongs to another network"
            )
