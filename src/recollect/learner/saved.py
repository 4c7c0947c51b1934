"""What of a learner goes into a file, and how it comes back."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from recollect.errors import DataError, InputError, RecollectError
from recollect.learner.engine import Engine, Settings, bytes_in
from recollect.learner.examples import Kind
from recollect.learner.labels import Labels
from recollect.learner.record import Record
from recollect.memory import ClassRing, Clock
from recollect.methods import METHODS, Method, every_method

__all__ = [
    "careful",
    "check",
    "check_facts",
    "classes",
    "facts",
    "kind",
    "record",
    "restore",
    "tensors",
    "told",
]

LARGEST = 2**63
MOST_SPARE = 10_000


def check(module: nn.Module, settings: Settings, window: int, *, fixed: bool) -> None:
    """Refuse what no learner can be made of."""
    if not isinstance(module, nn.Module):
        raise InputError(f"the network must be a torch.nn.Module, not {type(module).__name__}")
    if next(module.parameters(), None) is None:
        raise InputError("the network has no weights, so there is nothing that could learn")
    method = settings.method
    if not isinstance(method, Method):
        raise InputError(f"the method must be one of recollect's, such as DERpp(), not {method!r}")
    if method.needs_boundaries or method.needs_task or method.needs_all_data:
        fit = [m.title for m in METHODS.values() if _for_streams(m)]
        raise InputError(
            f"{method.title} needs to be told where tasks begin and end, and a stream does not "
            f"say; these do not: {', '.join(fit)}"
        )
    if not fixed and isinstance(method.rule(1), ClassRing):
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
    lr: object = settings.lr
    if not isinstance(lr, int | float) or not math.isfinite(lr) or lr <= 0:
        raise InputError(f"lr must be a positive number, not {lr!r}")


def facts(settings: Settings, engine: Engine | None) -> dict[str, Any]:
    """All but tensors, labels and the record of predictions."""
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


def kind(facts: Mapping[str, Any]) -> Kind:
    """The kind of the examples."""
    found = facts["kind"]
    dtype = getattr(torch, found["dtype"])
    if not isinstance(dtype, torch.dtype):
        raise DataError(f"{found['dtype']!r} is no type of examples")
    return Kind(tuple(int(size) for size in found["shape"]), dtype)


def tensors(engine: Engine | None, record: Record) -> dict[str, Tensor]:
    """Every tensor of a learner."""
    kept = {f"record.{name}": tensor for name, tensor in record.tensors().items()}
    learned = engine.fleet.tensors() if engine else {}
    return {**kept, **{f"engine.{name}": tensor for name, tensor in learned.items()}}


def restore(engine: Engine, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Bring an engine to the saved state."""
    clock = facts["clock"]
    engine.restore(
        _part(tensors, "engine"),
        Clock(**{**clock, "past": tuple(clock["past"]), "counts": tuple(clock["counts"])}),
    )


def record(empty: Record, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Record:
    """The saved record of predictions."""
    return empty.restored(_part(tensors, "record"), int(facts["predicted"]))


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


def _for_streams(method: type[Method]) -> bool:
    return not (method.needs_boundaries or method.needs_task or method.needs_all_data)


def _whole(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool)
