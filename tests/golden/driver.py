"""Run a method and say what it did: the only file here that knows the library's inside.

A redesign adapts this file, and no other one of this folder: tensors keep the names under which
they were recorded, whatever they are called by then. `run` goes through `recollect.run`; what it
would not tell is seen by a fleet that computes in double precision and takes notes.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor, nn

import recollect
from recollect.core.random import extend
from recollect.methods import METHODS, Method
from recollect.streams import TaskStream
from recollect.train import Fleet, loop

__all__ = ["METHODS", "digest", "learner_methods", "needs_one_by_one", "run", "uses_memory"]

# Methods that choose slots in the step, and names that have changed since the recording.
CHOOSING = ("er-hybrid", "er-kmeans", "er-mof", "gss")
RECORDED_AS = {"valid": "counts"}
DIGITS, FEW = 12, 8  # of digests that are compared once, and of those after every step


def run(
    stream: TaskStream,
    method: Method,
    network: Callable[[], nn.Module],
    seeds: list[int],
    stepwise: bool,
    **settings: Any,
) -> list[dict[str, Any]]:
    """Train and score a method on a stream; what every seed's run did.

    A run has `tasks`, with the digests of what arrived, of what was planned and of what memory held
    after each of them; `state`, all tensors at the end; and `accuracy`, a matrix for every setting.
    With `stepwise`, steps are taken one by one, and the run has `losses` and `held` too: the loss
    and the digest of memory after every step. Otherwise they are taken as training takes them, and
    there is only the `last` loss.
    """
    made: list[_Noting] = []

    def fleet(*args: Any, **kwargs: Any) -> _Noting:
        made.append(_Noting(*args, **{**kwargs, "dtype": torch.float64, "compiled": False}))
        made[0].stepwise = stepwise
        return made[0]

    with patch.object(loop, "Fleet", fleet):
        results = recollect.run(stream, method, seeds=seeds, network=network, workers=1,
                                device="cpu", **settings)  # fmt: skip
    (noted,) = made
    whole = noted.tensors()
    # What is a method's state now was recorded as its own tensors.
    parts = {
        n.replace("state.", "own.", 1) if n.startswith("state.") else n: t
        for n, t in whole.items()
        if n.split(".")[0] in ("weights", "buffers", "state")
    }
    parts |= {f"memory.{name}": t for name, t in noted.memory.fields().items()}
    return [
        noted.notes[k]
        | {"state": {name: tensor[k] for name, tensor in parts.items()}}
        | {"accuracy": {name: list(rows) for name, rows in result.matrix.items()}}
        for k, result in enumerate(results)
    ]


def uses_memory(name: str) -> bool:
    """Whether a method takes a buffer and a size of replays."""
    return METHODS[name].replay is not None


def needs_one_by_one(name: str) -> bool:
    """Whether a method takes one example in a step."""
    return METHODS[name].needs.batch_size == 1


def learner_methods() -> list[str]:
    """The methods that a learner takes."""
    return [
        name
        for name, kind in METHODS.items()
        if not (kind.needs.boundaries or kind.needs.task_id or kind.needs.all_data)
    ]


def digest(tensor: Tensor) -> str:
    """A few digits that say whether tensors are the same, bit for bit; any whole numbers count."""
    return hashlib.sha256(_bytes(tensor)).hexdigest()[:DIGITS]


class _Noting(Fleet):
    """A fleet that notes what every run meets, plans and keeps."""

    stepwise = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.notes: list[dict[str, Any]] = [{"tasks": []} for _ in range(self.runs)]
        self._hashes = self._fresh()
        self._plan = self.planner.plan
        self.planner.plan = self._overheard  # type: ignore[assignment, method-assign]

    def learn(
        self, x: Tensor, y: Tensor, batch: int, given: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        loss = torch.zeros(self.runs)
        length = batch if self.stepwise else y.shape[1]
        for start in range(0, y.shape[1], length):
            here = slice(start, start + length)
            self._add("arrived", x[:, here])
            self._add("labels", y[:, here])
            loss = super().learn(x[:, here], y[:, here], batch)
            if self.stepwise:
                for k, note in enumerate(self.notes):
                    note.setdefault("losses", []).append(float(loss[k]))
                    if self.memory.capacity:
                        note.setdefault("held", []).append(self._held(k)[:FEW])
        for k, note in enumerate(self.notes):
            note["last"] = float(loss[k])
        return loss

    def next_task(self, count: int = 0) -> None:
        super().next_task(count)
        for k, note in enumerate(self.notes):
            named = self.weights.named().values()
            found = {name: h.hexdigest()[:DIGITS] for name, h in self._hashes[k].items()}
            weights = torch.cat([tensor[k].flatten() for tensor in named])
            if self.memory.capacity:
                found["held"] = self._held(k)
            note["tasks"].append({**found, "weights": weights})
        self._hashes = self._fresh()

    def _held(self, run: int) -> str:
        """A digest of what is in a run's memory, but for what a network computed."""
        fields = self.memory.fields()
        exact = [_bytes(fields[name][run]) for name in sorted(fields) if name != "logits"]
        return hashlib.sha256(b"".join(exact)).hexdigest()[:DIGITS]

    def _overheard(self, *args: Any) -> dict[str, Tensor]:
        """Note which slots are read and written, and all that is random, step by step."""
        found = plan = self._plan(*args)
        first = torch.arange(self.runs)[:, None] * self.memory.capacity
        spare = self.runs * self.memory.capacity
        plan = {RECORDED_AS.get(name, name): stack for name, stack in plan.items()}
        if self.kind.name not in CHOOSING:
            del plan["slots"]
        key = plan.pop("key")
        if self.kind.name == "gss":  # two random words for every example
            size = 2 * plan["slots"].shape[2]
            plan["luck"] = extend(key[..., None], torch.arange(size)).view(*key.shape, -1, 2)
        for name, stack in plan.items():
            if name in ("read", "write"):
                stack = torch.where(stack == spare, self.memory.capacity, stack - first)
            for step in stack:
                self._add(name, step)
        return found

    def _add(self, name: str, tensor: Tensor) -> None:
        """Take a tensor `[K, ...]` into the digests of the task."""
        for k in range(self.runs):
            self._hashes[k][name].update(_bytes(tensor[k]))

    def _fresh(self) -> list[defaultdict[str, Any]]:
        return [defaultdict(hashlib.sha256) for _ in range(self.runs)]


def _bytes(tensor: Tensor) -> bytes:
    whole = not tensor.is_floating_point()
    found: np.ndarray = (tensor.long() if whole else tensor).contiguous().numpy()
    return found.tobytes()
