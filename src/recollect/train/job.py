"""A job: runs that can be trained as one fleet."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import torch
from torch import nn

from recollect.errors import InputError
from recollect.methods import Method, Spec, recorded_values, setup_of, symbol
from recollect.streams.joint import Joint
from recollect.streams.stream import Stream, has_task_il, target_of
from recollect.train.checks import check_target
from recollect.train.code import code_fingerprint
from recollect.train.details import Details
from recollect.train.fingerprint import NetworkFacts, stream_fingerprint
from recollect.train.identity import UNKNOWN, Identity, hashed
from recollect.train.optimisation import PLAIN_SGD, Optimisation
from recollect.train.result import precision_class

CPU = torch.device("cpu")
NO_DETAILS = Details()


@dataclass(frozen=True)
class Run:
    """One run of a fleet: its seed, learning rate, method and optimiser settings."""

    seed: int
    lr: float
    method: Method
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """Runs of one method on one stream with equal shapes, trained as one fleet.

    With `half`, networks with convolutions compute in bfloat16.
    """

    stream: Stream
    runs: tuple[Run, ...]
    batch: int
    replay: int
    buffer: int | None
    epochs: int
    network: Callable[[], nn.Module] | nn.Module
    validation: bool = False
    device: torch.device = CPU
    half: bool = False
    optimisation: Optimisation = PLAIN_SGD
    details: Details = NO_DETAILS

    @property
    def kind(self) -> type[Method]:
        """The class of the runs' method."""
        return type(self.runs[0].method)

    @property
    def arriving(self) -> Stream:
        """The stream to train on: with all tasks mixed if the method needs all data."""
        return Joint(self.stream) if self.kind.needs.all_data else self.stream

    @property
    def steps(self) -> int:
        """The number of steps per run, without those that a method requests at task end."""
        return sum(self.task_steps(task) for task in range(self.arriving.tasks))

    def task_steps(self, task: int) -> int:
        """The number of steps per run in a task, without rehearsed examples."""
        parts = self.arriving.parts(task)
        return self.epochs * sum(math.ceil(n / self.batch) for n in parts)

    @property
    def spec(self) -> Spec:
        """The dimensions of the fleet, for the method's setup."""
        stream, tasks = self.arriving, range(self.arriving.tasks)
        per_task = max(len(stream.task_classes(task)) for task in tasks)
        return Spec(
            len(self.runs), self.buffer or 0, stream.classes, len(tasks), per_task, stream.shape
        )

    @property
    def total_steps(self) -> int:
        """The number of steps of all runs together."""
        return self.steps * len(self.runs)

    @property
    def work(self) -> int:
        """The number of examples that pass through the networks: a rough measure of cost."""
        return self.total_steps * self.rows

    @property
    def rows(self) -> int:
        """The number of examples per run that pass through the network in a step."""
        replay = setup_of(self.runs[0].method, self.spec).replay
        return self.batch + self.replay * (replay.draws if replay else 0)

    @property
    def precision(self) -> str:
        """The precision of the networks' computations.

        On a GPU, matrix products in float32 use TF32.
        """
        half = self.half and self._network_facts.convolves
        name = "bf16 autocast" if half else "float32"
        return f"{name}, TF32" if self.device.type == "cuda" else name

    @property
    def planned(self) -> tuple[Identity, ...]:
        """The identities of the runs, with the data, network and code unknown."""
        return self._identities(stream=UNKNOWN, network=UNKNOWN, code=UNKNOWN)

    @cached_property
    def identities(self) -> tuple[Identity, ...]:
        """The identity of every run.

        Code and data are read at the first access, before training, so that files edited during a
        long run have no effect.
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
        """A short hash of all runs of the job and the type of device."""
        return self.key_without()

    def key_without(self, *parts: str) -> str:
        """A short hash of the job without these parts of the runs' identities."""
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
        """The hyper-parameters of a run by the paper's symbols."""
        own = {symbol(name): float(value) for name, value in recorded_values(run.method).items()}
        sizes = {"bs": self.batch, **({"mbs": self.replay} if self.kind.replay else {})}
        return {"lr": run.lr, **own, **sizes, **run.numbers}

    def check(self) -> None:
        """Raise an `InputError` if the stream does not meet the requirements of the method."""
        if self.optimisation.options is not None:  # these are not part of a run's identity
            raise InputError(
                f"experiments support SGD, Adam and AdamW without optimiser_options, not torch's "
                f"{self.optimisation.optimiser}"
            )
        if self.kind.needs.boundaries and not self.stream.boundaries:
            raise InputError(
                f"{self.kind.title} needs task boundaries, which {self.stream.name} does not have: "
                f"choose another method or stream"
            )
        target = target_of(self.stream)
        check_target(self.runs[0].method, setup_of(self.runs[0].method, self.spec).policy, target)
        if self.details.confusion and target.name != "class":
            raise InputError(
                f"confusion matrices need classes, but the target of {self.stream.name} is "
                f"{target.name!r}: leave out confusion"
            )
        if self.kind.needs.task_id and self.stream.setting != "class":
            raise InputError(
                f"{self.kind.title} needs the task of an example to predict, which "
                f"{self.stream.name} does not provide: choose a stream with Task-IL"
            )
        if self.kind.needs.task_id and not has_task_il(self.stream):
            raise InputError(
                f"{self.kind.title} predicts among the classes of a task, but the tasks of "
                f"{self.stream.name} share classes: choose a stream with Task-IL"
            )

        for run in self.runs:
            self._check_warmup(int(run.numbers.get("warmup", 0)))

    def _check_warmup(self, warmup: int) -> None:
        per_task = self.optimisation.per == "task"
        tasks = range(self.arriving.tasks)
        steps = min(map(self.task_steps, tasks)) if per_task else self.steps
        if warmup and warmup >= steps:
            raise InputError(
                f"warmup must be less than {steps}, the number of steps of "
                f"{'a task' if per_task else 'a run'}, not {warmup}: the learning rate would never "
                f"be reached"
            )

    def split(self, runs: int) -> list[Job]:
        """Split the job into fleets of at most `runs` runs, of sizes as equal as possible."""
        pieces = math.ceil(len(self.runs) / runs)
        size, extra = divmod(len(self.runs), pieces)
        bounds = [piece * size + min(piece, extra) for piece in range(pieces + 1)]
        return [self.with_runs(self.runs[a:b]) for a, b in pairwise(bounds)]

    def with_runs(self, runs: tuple[Run, ...]) -> Job:
        """The same job for some of its runs, without computing fingerprints again."""
        part = replace(self, runs=runs)
        vars(part)["_network_facts"] = self._network_facts  # the network is built once
        vars(part)["_environment"] = self._environment
        return part
