"""What of a learner goes into a file, and how it comes back."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from recollect.errors import DataError, InputError, RecollectError
from recollect.learner.engine import Engine, Settings, bytes_in
from recollect.learner.examples import Kind
from recollect.learner.labels import Labels
from recollect.learner.moment import Moment
from recollect.learner.record import Record
from recollect.memory import Clock
from recollect.methods import METHODS, Method, Spec, every_method, setup_of

__all__ = [
    "careful",
    "check",
    "check_facts",
    "check_transforms",
    "classes",
    "facts",
    "moment",
    "tensors",
    "told",
]

LARGEST = 2**63
MOST_SPARE = 10_000
# What tensors were called in files of version 0.1.
OLD_NAMES = {"own": "state", "met": "counts"}


def check(module: nn.Module, settings: Settings, window: int, *, fixed: bool) -> None:
    """Refuse what no learner can be made of."""
    if not isinstance(module, nn.Module):
        raise InputError(f"the network must be a torch.nn.Module, not {type(module).__name__}")
    if next(module.parameters(), None) is None:
        raise InputError("the network has no weights, so there is nothing that could learn")
    if not any(weight.requires_grad for weight in module.parameters()):
        raise InputError(
            "all weights of the network are frozen, so there is nothing that could learn: leave "
            "those of its last layer with requires_grad=True"
        )
    method = settings.method
    if not isinstance(method, Method):
        raise InputError(
            f"the method must be one of recollect.methods, such as DERpp(), not {method!r}"
        )
    if method.needs.boundaries or method.needs.task_id or method.needs.all_data:
        fit = [m.title for m in METHODS.values() if _for_streams(m)]
        raise InputError(
            f"{method.title} needs to be told where tasks begin and end, and a stream does not "
            f"say; these do not: {', '.join(fit)}"
        )
    if not fixed and _uses_labels(method):
        raise InputError(
            f"{method.title} shares its memory among the classes: say which there will be "
            f"(classes=[...])"
        )
    if isinstance(settings.memory, str):
        bytes_in(settings.memory)
    numbers = {"memory": settings.memory, "replay": settings.replay, "window": window}
    for name, number in numbers.items():
        if name == "memory" and isinstance(number, str):
            continue
        if not _whole(number) or int(number) < 1:
            raise InputError(f"{name} must be a whole number of at least 1, not {number!r}")
    if not _whole(settings.spare) or not 0 <= settings.spare <= MOST_SPARE:
        raise InputError(f"spare must be a whole number in 0..{MOST_SPARE}, not {settings.spare!r}")
    if not _whole(settings.seed) or not 0 <= settings.seed < LARGEST:
        raise InputError(f"the seed must be a whole number in 0..2^63 - 1, not {settings.seed!r}")
    if not isinstance(settings.optimiser, str):
        raise InputError(
            f"the optimiser must be the name of one of torch's, such as 'AdamW', not "
            f"{settings.optimiser!r}"
        )
    lr: object = settings.lr
    if not isinstance(lr, int | float) or not math.isfinite(lr) or lr <= 0:
        raise InputError(f"lr must be a positive number, not {lr!r}")


def check_transforms(**transforms: object) -> None:
    """Refuse transforms that are no functions."""
    for name, transform in transforms.items():
        if transform is not None and not callable(transform):
            raise InputError(f"{name} must be a function of a batch, not {transform!r}")


def facts(settings: Settings, moment: Moment, notes: Mapping[str, Any]) -> dict[str, Any]:
    """All of a learner but its tensors."""
    engine, labels, record = moment
    kind = engine.kind if engine else None
    return {
        "method": settings.method.name,
        "hyperparameters": asdict(settings.method),
        "memory": settings.memory,
        "lr": settings.lr,
        "seed": settings.seed,
        "replay": settings.replay,
        "optimiser": settings.optimiser,
        "optimiser_options": dict(settings.options),
        "spare": settings.spare,
        "kind": kind and {"shape": list(kind.shape), "dtype": str(kind.dtype).split(".")[-1]},
        "outputs": engine.outputs if engine else 0,
        "clock": asdict(engine.fleet.clock) if engine else None,
        "labels": labels.as_json(),
        "fixed": labels.fixed,
        "predicted": record.seen,
        "window": len(record.ring),
        "notes": notes,
    }


def told(facts: Mapping[str, Any], method: Method | None) -> dict[str, Any]:
    """The arguments that the learner was made with."""
    name = facts["method"]
    if method is None:
        known = METHODS.get(name) or every_method().get(name)
        if known is None:
            raise InputError(
                f"the saved learner has a method of its own, {name!r}: pass it as method=..."
            )
        method = known(**facts["hyperparameters"])
    elif method.name != name:
        raise InputError(f"the saved learner learned with {name}, not with {method.name}")
    names = ("memory", "lr", "seed", "replay", "optimiser", "optimiser_options", "spare", "window")
    return {"method": method, **{name: facts[name] for name in names}}


def classes(facts: Mapping[str, Any]) -> list[Hashable] | None:
    """The classes, if they were fixed."""
    return list(Labels.from_json(facts["labels"], fixed=True).known) if facts["fixed"] else None


def check_facts(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Refuse facts that contradict each other or the tensors, before anything is made of them."""
    clock, kind = facts["clock"], facts["kind"]
    counts = [facts["predicted"], facts["outputs"], facts["window"]]
    if clock is not None:
        counts += [clock["steps"], clock["seen"], clock["tasks"], *clock["past"], *clock["counts"]]
    right = [tensors[f"record.{name}"].shape for name in ("right", "met")]
    weights = _part(tensors, "engine.weights").values()
    sound = (
        all(_whole(count) and 0 <= count < LARGEST for count in counts)
        and isinstance(facts["labels"], list)
        and isinstance(facts["fixed"], bool)
        and isinstance(facts["notes"], dict)
        and (clock is None) == (kind is None)
        and (clock is None or (clock["seen"] == facts["predicted"] and clock["tasks"] == 1))
        and facts["outputs"] <= sum(tensor.numel() for tensor in weights)
        and tensors["record.ring"].shape == (facts["window"],)
        and right[0] == right[1]
        and len(right[0]) == 1
        and right[0][0] <= len(facts["labels"])
    )
    if kind is not None and "engine.memory.x" in tensors:
        rows, *shape = tensors["engine.memory.x"].shape
        sound = sound and shape == kind["shape"]
        if isinstance(facts["memory"], int):
            sound = sound and rows == facts["memory"] + 1
    if not sound:
        raise DataError("it does not hold a whole learner: its facts contradict each other")


def tensors(moment: Moment) -> dict[str, Tensor]:
    """Every tensor of a learner."""
    kept = {f"record.{name}": tensor for name, tensor in moment.record.tensors().items()}
    learned = moment.engine.fleet.tensors() if moment.engine else {}
    return {**kept, **{f"engine.{name}": tensor for name, tensor in learned.items()}}


def moment(
    facts: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    empty: Record,
    make: Callable[[Kind, int], Engine],
) -> Moment:
    """The saved moment; `make` makes an engine for examples of a kind, with so many outputs."""
    labels = Labels.from_json(facts["labels"], fixed=facts["fixed"])
    record = empty.restored(_part(tensors, "record"), int(facts["predicted"]))
    if facts["kind"] is None:
        return Moment(None, labels, record)
    kind = _kind(facts["kind"])
    try:
        engine = make(kind, facts["outputs"])
    except InputError as error:
        raise InputError(f"the saved learner does not go into this network: {error}") from error
    if engine.outputs != facts["outputs"]:
        raise InputError(
            f"the network has {engine.outputs} outputs and the saved one {facts['outputs']}: "
            f"pass the network that the learner was made with"
        )
    clock = facts["clock"]
    past, counts = tuple(clock["past"]), tuple(clock["counts"])
    learned = {_new_name(name): tensor for name, tensor in _part(tensors, "engine").items()}
    engine.restore(learned, Clock(**{**clock, "past": past, "counts": counts}))
    return Moment(engine, labels, record)


def _kind(saved: Mapping[str, Any]) -> Kind:
    dtype = getattr(torch, saved["dtype"])
    if not isinstance(dtype, torch.dtype):
        raise DataError(f"{saved['dtype']!r} is no type of examples")
    return Kind(tuple(int(size) for size in saved["shape"]), dtype)


@contextmanager
def careful() -> Iterator[None]:
    """Facts that make no sense are a `DataError`, however they fail."""
    try:
        yield
    except RecollectError:
        raise
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        raise DataError(f"it does not hold a whole learner: {error!r}") from None


def _part(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    start = f"{part}."
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}


def _new_name(name: str) -> str:
    part, _, rest = name.partition(".")
    return f"{OLD_NAMES.get(part, part)}.{rest}"


def _uses_labels(method: Method) -> bool:
    policy = setup_of(method, Spec(1, 1, 1, 1, 1, ())).policy
    return policy is not None and policy.uses_labels


def _for_streams(method: type[Method]) -> bool:
    return not (method.needs.boundaries or method.needs.task_id or method.needs.all_data)


def _whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
