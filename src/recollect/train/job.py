"""A job: runs that can train as one fleet."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import torch
from torch import nn

from recollect.core.packing import Packing
from recollect.errors import InputError
from recollect.methods import Method, Spec, setup_of, symbol, told
from recollect.streams.joint import Joint
from recollect.streams.stream import Stream, has_task_il, packing_of
from recollect.streams.targets import target_of
from recollect.train.checks import check_target
from recollect.train.code import code_fingerprint
from recollect.train.details import Details
from recollect.train.fingerprint import NetworkFacts, stream_fingerprint
from recollect.train.identity import UNKNOWN, Identity, hashed
from recollect.train.optimisation import PLAIN_SGD, Optimisation
from recollect.train.result import precision_class

__all__ = ["Job", "Run"]

CPU = torch.device("cpu")
NO_DETAILS = Details()


@dataclass(frozen=True)
class Run:
    """What is particular to one run of a fleet: seed, rate, method, numbers of the optimiser."""

    seed: int
    lr: float
    method: Method
    numbers: Mapping[str, float] = field(default_factory=dict)


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
    optimisation: Optimisation = PLAIN_SGD
    details: Details = NO_DETAILS

    @property
    def kind(self) -> type[Method]:
        """The method that all runs have in common."""
        return type(self.runs[0].method)

    @property
    def arriving(self) -> Stream:
        """The stream that the method trains on: all tasks mixed, if it needs all data at once."""
        return Joint(self.stream) if self.kind.needs.all_data else self.stream

    @property
    def packing(self) -> Packing | None:
        """How the stream packs examples of several tensors; None if they are one tensor each."""
        return packing_of(self.stream)

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
        return self._identities(stream=UNKNOWN, network=UNKNOWN, code=UNKNOWN)

    @cached_property
    def identities(self) -> tuple[Identity, ...]:
        """The identity of every run.

        Code and data are read the first time that it is asked for: before training, so that files
        which are edited during a long run do not count.
        """
        return self._identities(**self._environment)

    @cached_property
    def _environment(self) -> dict[str, str]:
        network = self._network_facts
        changing = {type(each): None for each in self.details.changing}
        others = (type(self.stream), *network.classes, *changing)
        return {
            "stream": stream_fingerprint(self.stream),
            "network": network.fingerprint,
            "code": code_fingerprint(self.kind, *others),
            "precision": precision_class(self.precision),
        }

    def _identities(self, **known: str) -> tuple[Identity, ...]:
        return tuple(
            Identity(
                benchmark=self.stream.name,
                method=self.kind.name,
                hyperparameters=self._hyperparameters(run),
                buffer=self.buffer,
                epochs=self.epochs,
                validation=self.validation,
                seed=run.seed,
                optimiser=self.optimisation.text,
                **known,
            )
            for run in self.runs
        )

    @property
    def key(self) -> str:
        """A short name for all runs of the job, on this kind of device."""
        return self.key_without()

    def key_without(self, *parts: str) -> str:
        """A short name for the same runs, whatever these parts of their identities are."""
        keys = (each.key_without(*parts) for each in self.identities)
        return hashed([self.device.type, *keys, *self.details.key])

    @property
    def network_class(self) -> str:
        """The name of the network's class; empty for a network of this library."""
        return self._network_facts.name

    @property
    def method_title(self) -> str:
        """The title of the method; empty for a method of this library."""
        ours = self.kind.__module__.partition(".")[0] == "recollect"
        return "" if ours else self.kind.title

    @cached_property
    def _network_facts(self) -> NetworkFacts:
        return NetworkFacts.of(self.network)

    def _hyperparameters(self, run: Run) -> dict[str, float]:
        """By the paper's symbols."""
        own = {symbol(name): float(value) for name, value in told(run.method).items()}
        sizes = {"bs": self.batch, **({"mbs": self.replay} if self.kind.replay else {})}
        return {"lr": run.lr, **own, **sizes, **run.numbers}

    def check(self) -> None:
        """Refuse a job whose method asks for what the stream does not give."""
        if self.optimisation.options is not None:  # which no identity of a run would tell apart
            raise InputError("experiments are run with SGD, Adam or AdamW, not with torch's own")
        if self.kind.needs.boundaries and not self.stream.boundaries:
            raise InputError(
                f"{self.kind.title} needs to be told where a task ends, and {self.stream.name} "
                f"has no task boundaries"
            )
        target = target_of(self.stream)
        check_target(self.runs[0].method, setup_of(self.runs[0].method, self.spec).policy, target)
        if self.details.confusion and target.name != "class":
            raise InputError(f"confusion matrices are of classes, which {target.name!r} has not")
        if self.kind.needs.task_id and self.stream.setting != "class":
            raise InputError(
                f"{self.kind.title} must be told at a test which task an example belongs to, "
                f"and {self.stream.name} does not say so"
            )
        if self.kind.needs.task_id and not has_task_il(self.stream):
            raise InputError(
                f"{self.kind.title} is scored over a task's classes, and in {self.stream.name} "
                f"tasks share classes"
            )

        for run in self.runs:
            self._check_warmup(int(run.numbers.get("warmup", 0)))

    def _check_warmup(self, warmup: int) -> None:
        per_task = self.optimisation.per == "task"
        tasks = range(self.arriving.tasks)
        steps = min(map(self.task_steps, tasks)) if per_task else self.steps
        if warmup and warmup >= steps:
            raise InputError(
                f"a warm-up of {warmup} steps is not shorter than the {steps} steps of "
                f"{'a task' if per_task else 'a run'}: the learning rate would never be reached"
            )

    def split(self, runs: int) -> list[Job]:
        """The same work as smaller fleets of at most so many runs, as even as can be."""
        pieces = math.ceil(len(self.runs) / runs)
        size, extra = divmod(len(self.runs), pieces)
        bounds = [piece * size + min(piece, extra) for piece in range(pieces + 1)]
        return [self.with_runs(self.runs[a:b]) for a, b in pairwise(bounds)]

    def with_runs(self, runs: tuple[Run, ...]) -> Job:
        """The same job for some of its runs, with the fingerprints that it has."""
        part = replace(self, runs=runs)
        vars(part)["_network_facts"] = self._network_facts  # the network is built once
        vars(part)["_environment"] = self._environment
        return part
