"""A job: runs that can train as one fleet, and what comes out of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from recollect.methods import Method, Spec, hyperparameters, setup_of, symbol
from recollect.streams.joint import Joint
from recollect.streams.stream import Stream
from recollect.train.code import code_fingerprint
from recollect.train.fingerprint import NetworkFacts, stream_fingerprint
from recollect.train.identity import UNKNOWN, Identity, hashed

__all__ = ["Job", "Result", "Run"]

CPU = torch.device("cpu")

MADE = ("code", "precision", "network", "stream")
IMPORTED = "imported"  # what version 0.1 called the code of a file that did not say


@dataclass(frozen=True)
class Run:
    """What is particular to one run of a fleet: its seed, its rate and its method."""

    seed: int
    lr: float
    method: Method


@dataclass(frozen=True)
class Job:
    """Runs of one method on one stream that share all shapes, so that they train as one fleet."""

    stream: Stream
    runs: tuple[Run, ...]
    batch: int
    replay: int
    buffer: int | None
    epochs: int
    network: Callable[[], nn.Module] | nn.Module
    validation: bool = False
    device: torch.device = CPU
    full_precision: bool = False

    @property
    def kind(self) -> type[Method]:
        """The method that all runs have in common."""
        return type(self.runs[0].method)

    @property
    def arriving(self) -> Stream:
        """The stream that the method trains on: all tasks mixed, if it needs all data at once."""
        return Joint(self.stream) if self.kind.needs.all_data else self.stream

    @property
    def steps(self) -> int:
        """How many steps each run takes, if the method does not ask for more at a task's end."""
        return sum(self.task_steps(task) for task in range(self.arriving.tasks))

    def task_steps(self, task: int) -> int:
        """How many steps each run takes in a task, rehearsed examples aside."""
        parts = self.arriving.parts(task)
        return self.epochs * sum(math.ceil(n / self.batch) for n in parts)

    @property
    def spec(self) -> Spec:
        """What the method is told of the fleet before its networks are made."""
        stream, tasks = self.arriving, range(self.arriving.tasks)
        per_task = max(len(stream.task_classes(task)) for task in tasks)
        return Spec(
            len(self.runs), self.buffer or 0, stream.classes, len(tasks), per_task, stream.shape
        )

    @property
    def total_steps(self) -> int:
        """How many steps all runs take together."""
        return self.steps * len(self.runs)

    @property
    def work(self) -> int:
        """How many examples pass through the networks: what the job costs, roughly."""
        return self.total_steps * self.rows

    @property
    def rows(self) -> int:
        """How many examples of a run pass through its network in a step."""
        replay = setup_of(self.runs[0].method, self.spec).replay
        return self.batch + self.replay * (replay.draws if replay else 0)

    @property
    def precision(self) -> str:
        """The numbers that the networks compute with.

        On a GPU, matrix products use TF32, and networks with convolutions bfloat16 unless the job
        asks for full precision.
        """
        if self.device.type != "cuda":
            return "float32"
        half = not self.full_precision and self._network_facts.convolves
        return "bf16 autocast, TF32" if half else "float32, TF32"

    @property
    def planned(self) -> tuple[Identity, ...]:
        """The identities of the runs as far as they are known without data, network and code."""
        return tuple(
            Identity(
                benchmark=self.stream.name,
                stream=UNKNOWN,
                method=self.kind.name,
                network=UNKNOWN,
                code=UNKNOWN,
                hyperparameters=self.hyperparameters(number),
                buffer=self.buffer,
                epochs=self.epochs,
                validation=self.validation,
                seed=run.seed,
            )
            for number, run in enumerate(self.runs)
        )

    @cached_property
    def identities(self) -> tuple[Identity, ...]:
        """The identity of every run.

        Code and data are read the first time that it is asked for: before training, so that files
        which are edited during a long run do not count.
        """
        network = self._network_facts
        stream = stream_fingerprint(self.stream)
        code = code_fingerprint(self.kind, type(self.stream), *network.classes)
        precision = precision_class(self.precision)
        return tuple(
            replace(
                each, stream=stream, network=network.fingerprint, code=code, precision=precision
            )
            for each in self.planned
        )

    @property
    def key(self) -> str:
        """A short name for all runs of the job, on this kind of device."""
        return self.key_without()

    def key_without(self, *parts: str) -> str:
        """A short name for the same runs, whatever these parts of their identities are."""
        return hashed([self.device.type, *(each.key_without(*parts) for each in self.identities)])

    @cached_property
    def _network_facts(self) -> NetworkFacts:
        return NetworkFacts.of(self.network)

    def hyperparameters(self, run: int) -> dict[str, float]:
        """The hyper-parameters of one run, by the paper's symbols."""
        config = self.runs[run]
        own = {
            symbol(name): float(getattr(config.method, name)) for name in hyperparameters(self.kind)
        }
        sizes = {"bs": self.batch, **({"mbs": self.replay} if self.kind.replay else {})}
        return {"lr": config.lr, **own, **sizes}

    def split(self, runs: int) -> list[Job]:
        """The same work as smaller fleets of at most so many runs, as even as can be."""
        pieces = math.ceil(len(self.runs) / runs)
        size, extra = divmod(len(self.runs), pieces)
        bounds = [piece * size + min(piece, extra) for piece in range(pieces + 1)]
        return [replace(self, runs=self.runs[a:b]) for a, b in pairwise(bounds)]


@dataclass(frozen=True)
class Result:
    """What one run was, and how it went; percentages per setting.

    `train_seconds` is the fleet's training time divided by its runs: what this run cost. `stream`,
    `network` and `code` are fingerprints, and `UNKNOWN` in results of old files (see `Identity`).
    """

    benchmark: str
    method: str
    buffer: int | None
    seed: int
    hyperparameters: Mapping[str, float]
    accuracy: Mapping[str, float]
    fwt: Mapping[str, float | None]
    bwt: Mapping[str, float | None]
    forgetting: Mapping[str, float | None]
    epochs: int
    validation: bool
    matrix: Mapping[str, Sequence[Sequence[float | None]]]
    untrained: Mapping[str, Sequence[float]] | None
    train_seconds: float
    steps: int
    memory_bytes: int
    diverged: bool
    device: str
    execution: str
    stream: str = UNKNOWN
    network: str = UNKNOWN
    code: str = UNKNOWN
    precision: str = UNKNOWN
    optimiser: str = "sgd"

    @property
    def identity(self) -> Identity:
        """What was run, without how it went."""
        # Old files have no precision, but their execution says where bfloat16 was used.
        precision = self.precision or precision_class(self.execution)
        parts = {field.name: getattr(self, field.name) for field in fields(Identity)}
        return Identity(**{**parts, "precision": precision})

    def as_json(self) -> dict[str, Any]:
        """The result as plain data, as it stands in files: fingerprints are in `made`."""
        data = asdict(self)
        made = {name: data.pop(name) for name in MADE}
        optimiser = data.pop("optimiser")
        return data | {"made": made | ({} if optimiser == "sgd" else {"optimiser": optimiser})}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Result:
        """The result that `as_json` wrote, now or in an older version."""
        facts = {name: value for name, value in data.items() if name != "made"}
        made = data.get("made") or {}
        known = {name: made[name] for name in (*MADE, "optimiser") if made.get(name)}
        if known.get("code") == IMPORTED:
            del known["code"]
        if "precision" in known:
            known["precision"] = precision_class(known["precision"])
        return cls(**facts, **known)


def precision_class(text: str) -> str:
    """Whether networks compute in bfloat16, of a text that says how they compute.

    >>> precision_class("bf16 autocast, TF32"), precision_class("float32, TF32")
    ('bf16', 'float32')
    """
    return "bf16" if "bf16" in text else "float32"
