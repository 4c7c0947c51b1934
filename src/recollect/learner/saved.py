"""What a learner's file contains, and the learner that is made from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from recollect.errors import DataError, InputError, RecollectError
from recollect.learner.engine import Engine, EngineFactory
from recollect.learner.examples import Kind
from recollect.learner.labels import Labels
from recollect.learner.record import Record
from recollect.learner.settings import LARGEST, Settings, is_whole
from recollect.learner.snapshot import Snapshot
from recollect.memory import Clock
from recollect.methods import METHODS, Method, every_method

__all__ = ["arguments", "as_data_error", "check_facts", "facts", "snapshot", "tensors"]

# What tensors were called in files of version 0.1.
OLD_NAMES = {"own": "state", "met": "counts"}


def facts(settings: Settings, snapshot: Snapshot, notes: Mapping[str, Any]) -> dict[str, Any]:
    """The state of a learner without its tensors, as plain data."""
    engine, labels, record = snapshot
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


def arguments(facts: Mapping[str, Any], method: Method | None) -> dict[str, Any]:
    """The arguments that the learner was made with; `method` is one that a file cannot name."""
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
    labels = Labels.from_json(facts["labels"], fixed=True)
    names = ("memory", "lr", "seed", "replay", "optimiser", "optimiser_options", "spare", "window")
    return {
        "method": method,
        "classes": list(labels.known) if facts["fixed"] else None,
        **{name: facts[name] for name in names},
    }


def check_facts(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Refuse facts that contradict each other or the tensors."""
    clock, kind = facts["clock"], facts["kind"]
    counts = [facts["predicted"], facts["outputs"], facts["window"]]
    if clock is not None:
        counts += [clock["steps"], clock["seen"], clock["tasks"], *clock["past"], *clock["counts"]]
    right = [tensors[f"record.{name}"].shape for name in ("right", "met")]
    weights = _part(tensors, "engine.weights").values()
    sound = (
        all(is_whole(count) and 0 <= count < LARGEST for count in counts)
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


def tensors(snapshot: Snapshot) -> dict[str, Tensor]:
    """Every tensor of a learner."""
    recorded = {f"record.{name}": tensor for name, tensor in snapshot.record.tensors().items()}
    learned = snapshot.engine.fleet.tensors() if snapshot.engine else {}
    return {**recorded, **{f"engine.{name}": tensor for name, tensor in learned.items()}}


def snapshot(
    facts: Mapping[str, Any], tensors: Mapping[str, Tensor], factory: EngineFactory
) -> Snapshot:
    """The snapshot that was saved as facts and tensors."""
    labels = Labels.from_json(facts["labels"], fixed=facts["fixed"])
    record = Record.restored(_part(tensors, "record"), int(facts["predicted"]))
    if facts["kind"] is None:
        return Snapshot(None, labels, record)
    kind = _kind(facts["kind"])
    try:
        engine = Engine(factory, kind, facts["outputs"])
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
    engine.fleet.restore(learned, Clock(**{**clock, "past": past, "counts": counts}))
    return Snapshot(engine, labels, record)


def _kind(saved: Mapping[str, Any]) -> Kind:
    dtype = getattr(torch, saved["dtype"])
    if not isinstance(dtype, torch.dtype):
        raise DataError(f"{saved['dtype']!r} is not a type of examples")
    return Kind(tuple(int(size) for size in saved["shape"]), dtype)


@contextmanager
def as_data_error() -> Iterator[None]:
    """Turn whatever facts that make no sense raise into a `DataError`."""
    try:
        yield
    except (RecollectError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise DataError(f"it does not hold a whole learner: {error!r}") from None


def _part(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    start = f"{part}."
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}


def _new_name(name: str) -> str:
    part, _, rest = name.partition(".")
    return f"{OLD_NAMES.get(part, part)}.{rest}"
