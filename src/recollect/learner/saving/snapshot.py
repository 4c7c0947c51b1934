"""The whole state of a learner between two steps, and its conversion to and from a file."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from recollect.core.packing import Packing
from recollect.errors import DataError, InputError, RecollectError
from recollect.files import as_json, pack
from recollect.learner.contents.ids import NO_NAMES, Names
from recollect.learner.engine.emptied import NUMBER, check_holes
from recollect.learner.engine.engine import Engine
from recollect.learner.engine.probing import some_stored
from recollect.learner.inputs.encoder import check_encoder
from recollect.learner.inputs.examples import Kind
from recollect.learner.inputs.outliers import Watch
from recollect.learner.monitoring.class_record import Record
from recollect.learner.monitoring.drift import Drift
from recollect.learner.numbers import is_whole
from recollect.learner.optimising import ADDED, check_lr
from recollect.learner.saving.image import Image
from recollect.learner.saving.notes import Notes
from recollect.learner.settings import LARGEST, LATER, SAVED, Settings
from recollect.learner.targets.answers import Answers, AnyRecord, restored_answers, restored_record
from recollect.learner.targets.labels import Labels, decoded, encoded
from recollect.memory import Clock
from recollect.methods import METHODS, Method, every_method, recorded_values

# Names of tensors in old files, and their present names.
OLD_NAMES = {"own": "state", "met": "counts"}
MEMORY = "memory."
INCONSISTENT = "the saved learner is damaged: its data is inconsistent"


class Snapshot(NamedTuple):
    """The immutable state of a learner; a step replaces it by the next snapshot.

    `engine` is None until the first examples have arrived. `labelled` is the number of the last
    journal entry that was learned.
    """

    engine: Engine | None
    labels: Answers
    record: AnyRecord
    watch: Watch = Watch.empty()
    drift: Drift | None = None
    labelled: int = 0
    names: Names = NO_NAMES

    def learned(self, label: Hashable) -> int:
        """Return the number of examples of a label learned so far."""
        if not isinstance(self.labels, Labels) or not isinstance(self.record, Record):
            return self.record.seen
        (number,), met = self.labels.numbers([label]), self.record.counted().met
        return int(met[number]) if 0 <= number < len(met) else 0

    def drift_after(self, numbers: np.ndarray, guessed: np.ndarray) -> Drift | None:
        """Update drift detection with labels `[n]` and predictions `[n]`; None without it."""
        if self.drift is None or not isinstance(self.record, Record):
            return None
        met = self.record.counted().met
        return self.drift.after(numbers, guessed, met, self.record.seen)

    def ready(self) -> Engine:
        """Return the engine; raise an `InputError` if nothing has been learned yet."""
        if self.engine is None:
            raise InputError("nothing has been learned yet: call observe first")
        return self.engine

    def guesses(self, batch: Tensor, scores: Tensor | None = None) -> Any:
        """Predict a batch for the metrics, from its logits `[n, outputs]` if given."""
        if self.engine is None or not len(self.labels):
            return self.labels.guess(None, len(batch))
        scores = self.engine.logits(batch) if scores is None else scores
        return self.labels.guess(scores[:, : len(self.labels)], len(batch))


def packed(settings: Settings, snapshot: Snapshot, notes: Notes) -> bytes:
    """Serialise the whole state of a learner to the bytes of its file."""
    engine = snapshot.engine
    tensors = _named(snapshot, engine.fleet.tensors() if engine else {}, notes)
    return pack(_facts(settings, snapshot, notes), tensors)


def image_of(settings: Settings, snapshot: Snapshot, notes: Notes) -> Image:
    """Copy the state of a learner, to be written by another thread during further steps."""
    facts, engine = as_json(_facts(settings, snapshot, notes)), snapshot.engine
    if engine is None:
        return Image(facts, _named(snapshot, {}, notes))
    tensors = engine.fleet.tensors().items()
    few = {name: tensor for name, tensor in tensors if not name.startswith(MEMORY)}
    image = Image(facts, _named(snapshot, few, notes))
    return image.with_memory(f"engine.{MEMORY}", engine.fleet.memory, engine.guard)


def _facts(settings: Settings, snapshot: Snapshot, notes: Notes) -> dict[str, Any]:
    engine, labels, record, watch, drift, labelled, _ = snapshot
    kind, encoder = engine.kind if engine else None, settings.encoder
    return {
        "method": settings.method.name,
        "hyperparameters": recorded_values(settings.method),
        **settings.saved(),
        "kind": kind and _plain(kind),
        "encoder": encoder and encoder.facts(kind and kind.before and _plain(kind.before)),
        "outputs": engine.outputs if engine else 0,
        "clock": asdict(engine.fleet.clock) if engine else None,
        "labels": [encoded(label) for label in labels.known],
        "fixed": labels.fixed,
        **labels.facts(),
        **({"weighted": True} if engine and engine.target.weighted else {}),
        "predicted": record.seen,
        "window": len(record.ring),
        "watch": watch.facts(),
        "drift": drift and drift.facts(),
        "notes": notes.plain(),
        "labelled": labelled,
    }


def notes_in(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return the notes in a file: plain data and tensors."""
    return {**facts["notes"], **_part(tensors, "notes")}


def _named(snapshot: Snapshot, engine: Mapping[str, Tensor], notes: Notes) -> dict[str, Tensor]:
    record, watch = snapshot.record.tensors(), snapshot.watch.tensors()
    drift = snapshot.drift.tensors() if snapshot.drift else {}
    names = snapshot.names.tensors(snapshot.engine and snapshot.engine.fleet)
    parts = {
        "record": record, "watch": watch, "drift": drift, "engine": engine, "names": names,
        "notes": notes.tensors(),
    }  # fmt: skip
    return {f"{part}.{name}": t for part, tensors in parts.items() for name, t in tensors.items()}


def arguments(facts: Mapping[str, Any], method: Method | None) -> dict[str, Any]:
    """Return the arguments the learner was created with; pass `method` if it is not registered."""
    name = facts["method"]
    if method is None:
        known = METHODS.get(name) or every_method().get(name)
        if known is None:
            raise InputError(
                f"the saved learner has a custom method, {name!r}: pass it as method=..."
            )
        method = known(**facts["hyperparameters"])
    elif method.name != name:
        raise InputError(f"the saved learner has the method {name!r}, not {method.name!r}")
    added = {} if _old(facts) else {name: facts[name] for name in ADDED}
    numbers = added.pop("numbers", {})
    return {
        "method": method,
        "classes": [decoded(each) for each in facts["labels"]]
        if facts["fixed"] and "values" not in facts
        else None,
        **{name: facts[name] for name in (*SAVED, "optimiser", "optimiser_options", "window")},
        **{name: facts[name] for name in (*LATER, "target") if name in facts},
        **({} if method.replay else {"memory": None}),
        **added,
        **numbers,
    }


def as_made(settings: Settings, facts: Mapping[str, Any]) -> Settings:
    """Return the settings with the initial learning rate and memory size of the saved learner."""
    first = facts.get("first_lr", settings.lr)
    check_lr(first)
    return replace(settings, first_lr=first, first_memory=facts.get("first_memory"))


def check_facts(facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Raise a `DataError` if the plain data is inconsistent in itself or with the tensors."""
    clock, kind = facts["clock"], facts["kind"]
    counts = [facts["predicted"], facts["outputs"], facts["window"], facts.get("labelled", 0)]
    if clock is not None:
        counts += [clock["steps"], clock["seen"], clock["tasks"], *clock["past"], *clock["counts"]]
        counts += clock.get("holes", ())
    right = [tensors[f"record.{name}"].shape for name in ("right", "met")
             if facts.get("target", "class") == "class"]  # fmt: skip
    weights = _part(tensors, "engine.weights").values()
    sound = (
        all(is_whole(count) and 0 <= count < LARGEST for count in counts)
        and isinstance(facts["labels"], list)
        and isinstance(facts["fixed"], bool)
        and isinstance(facts["notes"], dict)
        and (clock is None) == (kind is None)
        and (clock is None or (clock["seen"] == facts["predicted"] and clock["tasks"] == 1))
        and facts["outputs"] <= sum(tensor.numel() for tensor in weights)
        and tensors["record.ring"].shape[:1] == (facts["window"],)
        and (not right or (right[0] == right[1] and len(right[0]) == 1))
        and (not right or right[0][0] <= len(facts["labels"]))
    )
    if kind is not None and "engine.memory.x" in tensors:
        rows, *shape = tensors["engine.memory.x"].shape
        sound = sound and shape == kind["shape"]
        if isinstance(facts["memory"], int):
            sound = sound and rows == facts["memory"] + 1
    if not sound:
        raise DataError(INCONSISTENT)


def restored(
    facts: Mapping[str, Any], tensors: Mapping[str, Tensor], module: nn.Module, settings: Settings
) -> Snapshot:
    """Restore a snapshot from the plain data and tensors of a file."""
    labels = restored_answers(settings.target, facts)
    record = restored_record(settings.target, _part(tensors, "record"), int(facts["predicted"]))
    encoder = facts.get("encoder")  # missing from files of older versions
    check_encoder(encoder, settings.encoder)
    if "watch" in facts:
        watch = Watch.restored(facts["watch"], _part(tensors, "watch"))
    else:  # a file of an older version
        watch = Watch.empty()._replace(arrived=record.seen)
    said = facts.get("drift")
    drift = None if said is None else Drift.restored(said, _part(tensors, "drift"))
    if facts["kind"] is None:
        return Snapshot(None, labels, record, watch, drift, facts.get("labelled", 0))
    kind = _kind(facts["kind"], _kind(encoder["kind"]) if encoder else None)
    try:
        numbered = f"engine.{MEMORY}{NUMBER.name}" in tensors
        target = settings.target.with_weights() if facts.get("weighted") else settings.target
        stored = some_stored(tensors.get(f"engine.{MEMORY}x"))
        engine = Engine(module, settings, kind, facts["outputs"], numbered, target, stored)
    except InputError as error:
        raise InputError(f"the saved learner does not fit this network: {error}") from error
    if engine.outputs != facts["outputs"]:
        raise InputError(
            f"the network has {engine.outputs} outputs, but the saved one {facts['outputs']}: "
            f"pass the network that the learner was created with"
        )
    clock = {n: tuple(v) if isinstance(v, list) else v for n, v in facts["clock"].items()}
    learned = {_new_name(name): tensor for name, tensor in _part(tensors, "engine").items()}
    if _old(facts):
        learned = _with_run_axis(learned, engine.fleet.tensors())
    engine.fleet.restore(learned, Clock(**clock))  # type: ignore[arg-type]
    check_holes(engine.fleet)
    engine.publish(labels)
    names = Names.restored(_part(tensors, "names"))
    return Snapshot(engine, labels, record, watch, drift, facts.get("labelled", 0), names)


def _plain(kind: Kind) -> dict[str, Any]:
    found = {"shape": list(kind.shape), "dtype": str(kind.dtype).split(".")[-1]}
    return found if kind.packing is None else found | {"packing": kind.packing.plain()}


def _kind(saved: Mapping[str, Any], before: Kind | None = None) -> Kind:
    dtype = getattr(torch, saved["dtype"])
    if not isinstance(dtype, torch.dtype):
        raise DataError(f"the saved learner is damaged: {saved['dtype']!r} is not a torch.dtype")
    shape = tuple(int(size) for size in saved["shape"])
    packing = Packing.restored(saved["packing"]) if "packing" in saved else None
    if packing and (shape, dtype) != ((packing.words,), torch.int32):
        raise DataError(INCONSISTENT)
    return Kind(shape, dtype, before, packing)


@contextmanager
def as_data_error() -> Iterator[None]:
    """Convert any exception that invalid data causes to a `DataError`."""
    try:
        yield
    except (RecollectError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        raise DataError(f"the saved learner is damaged: {error!r}") from None


def _part(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    start = f"{part}."
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}


def _new_name(name: str) -> str:
    part, _, rest = name.partition(".")
    return f"{OLD_NAMES.get(part, part)}.{rest}"


def _old(facts: Mapping[str, Any]) -> bool:
    """Whether a file is of the version in which all optimisers were torch's."""
    return not any(name in facts for name in ADDED)


def _with_run_axis(old: Mapping[str, Tensor], now: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert the Adam and AdamW state of an old file to that of a fleet.

    Torch's state has no run axis, and no entries for weights without a gradient.
    """
    state = {name: tensor for name, tensor in now.items() if name.startswith("optimiser.")}
    found = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    return found | {name: t.unsqueeze(0) if name in state else t for name, t in old.items()}
