"""The learner that the options of `recollect stream` ask for, checked before anything is read."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import nn

from recollect.cli.hyperparameters import given_values
from recollect.cli.stream_late import check_late
from recollect.errors import InputError
from recollect.experiments.values import axes_of
from recollect.feeds import STDIN, Reading
from recollect.learner import Learner
from recollect.methods import (
    Method,
    every_method,
    hyperparameters,
    method,
    static,
    symbol,
    told,
    untold,
)
from recollect.nets import MLP, ResNet18, Standardise
from recollect.train import device_named
from recollect.train.optimisation import NUMBERS
from recollect.train.parallel import one_thread

BATCH, MEMORY, MAX_CLASSES, CATEGORIES = 10, 500, 1000, 32
TAB = ("tab", "\\t")
SETTINGS = (
    "label", "features", "ignore", "delimiter", "header", "order", "size", "lr", "replay",
    "network", "hidden", "width", "standardise", "classes", "optimiser", "seed", "window",
)  # fmt: skip


@final
class Asked:
    """The sources and the learner that the options ask for, or an error that says what is wrong."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        kind, known = method(chosen.method), fit_for_streams(every_method())
        if kind.name not in known:
            raise InputError(
                f"{kind.title} is not fit for a stream, which has no task boundaries: take one of "
                f"{', '.join(known)}"
            )
        if chosen.memory is not None and kind.replay is None:
            raise InputError(f"{kind.title} has no memory: leave --memory out")
        memory = MEMORY if chosen.memory is None else chosen.memory
        self.chosen = chosen
        self.sources = [s if s == STDIN else str(Path(s).absolute()) for s in chosen.sources]
        self.labels = [s if s == STDIN else str(Path(s).absolute()) for s in chosen.labels]
        self.method = _method(kind, chosen)
        numbers = {name: value for name, value in given_values(chosen).items() if name in NUMBERS}
        self._numbers: Any = {n: v for n, v in numbers.items() if n not in hyperparameters(kind)}
        self.batch = (kind.needs.batch_size or BATCH) if chosen.batch is None else chosen.batch
        self.memory = int(memory) if str(memory).isascii() and str(memory).isdigit() else memory
        self.device = device_named(
            chosen.device or ("auto" if chosen.network == "resnet18" else "cpu")
        )
        _check(chosen, [*self.sources, *self.labels])
        check_late(chosen)
        self._learner(MLP(1, 1, ()), chosen.classes)  # refuses what no learner can be made of

    @property
    def settings(self) -> dict[str, Any]:
        """What the state depends on: a stream is continued with the same."""
        found = {name: getattr(self.chosen, name) for name in SETTINGS}
        found |= {"method": self.method.name, "memory": self.memory, "batch": self.batch}
        # None where nothing was chosen, as in states from before there was such a choice.
        values = {**dict.fromkeys(untold(type(self.method))), **told(self.method)}
        found |= {symbol(name): value for name, value in values.items()}
        usual = {
            "nesterov": False, "schedule": "constant", "schedule_steps": None,
            "max_classes": MAX_CLASSES, "on_outlier": "skip", "categorical": [],
            "categories": CATEGORIES, "missing": "auto", "drop_text": False, "id": None,
            "labels_id": None, "labels_label": None, "target": "class",
        }  # fmt: skip
        later = {name: getattr(self.chosen, name) for name in usual}
        found |= {name: None if v == usual[name] else v for name, v in later.items()}
        return {**dict.fromkeys(NUMBERS), **found, **self._numbers}

    @property
    def folder(self) -> Path:
        """Where the state is saved; by default a folder of its own for these sources and label."""
        if self.chosen.checkpoint is not None:
            return Path(self.chosen.checkpoint)
        joined = [self.labels] if self.labels else []
        facts = json.dumps([self.sources, self.chosen.label, *joined])
        name = "stdin" if self.sources == [STDIN] else Path(self.sources[0]).stem
        plain = re.sub(r"[^\w-]+", "-", name, flags=re.ASCII).strip("-") or "stream"
        return Path(".recollect") / f"{plain}-{hashlib.sha256(facts.encode()).hexdigest()[:8]}"

    def reading(self, say: Callable[[str], None]) -> Reading:
        """How the sources are read."""
        chosen = self.chosen
        delimiter = "\t" if chosen.delimiter in TAB else chosen.delimiter
        return Reading(
            chosen.format, chosen.label, chosen.features, chosen.ignore, delimiter, chosen.header,
            chosen.order, chosen.size, chosen.follow, chosen.skip_bad, chosen.replayed,
            chosen.missing, chosen.categorical, chosen.categories, chosen.drop_text, chosen.id,
            chosen.keep, say, labelled=chosen.label is not None or not self.labels,
        )  # fmt: skip

    def threads(self) -> AbstractContextManager[None]:
        """One thread for small networks: they gain nothing from a second."""
        return one_thread() if self.chosen.network == "mlp" else nullcontext()

    def learner(
        self,
        x: np.ndarray,
        format: str,  # noqa: A002 - as the option
        numbers: int | None,
    ) -> Learner:
        """A learner that has seen nothing, for examples such as x, of so many numbers (or all)."""
        classes = self.chosen.classes
        if classes is not None and format in ("jsonl", "parquet"):  # where numbers are numbers
            classes = [_value(text) for text in classes]
        return self._learner(self._network(x, numbers), classes)

    def _learner(self, network: nn.Module, classes: Sequence[Hashable] | None) -> Learner:
        chosen = self.chosen
        return Learner(
            network,
            self.method,
            memory=self.memory,
            lr=chosen.lr,
            seed=chosen.seed,
            replay=chosen.replay,
            optimiser=chosen.optimiser,
            nesterov=chosen.nesterov,
            schedule=chosen.schedule,
            schedule_steps=chosen.schedule_steps,
            classes=classes,
            device=self.device,
            window=chosen.window,
            max_classes=chosen.max_classes,
            on_outlier=chosen.on_outlier,
            drift=chosen.drift,
            target=chosen.target,
            **self._numbers,
        )

    def _network(self, x: np.ndarray, numbers: int | None) -> nn.Module:
        """A network for examples such as x, with a head of one output that grows."""
        chosen = self.chosen
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(chosen.seed)
            if chosen.network == "resnet18":
                if x.ndim != 3:
                    raise InputError(f"resnet18 takes images, not examples of shape {[*x.shape]}")
                return ResNet18(1, chosen.width, len(x))
            net = MLP(x.size, 1, chosen.hidden)
        if chosen.standardise is False or (chosen.standardise is None and x.dtype == np.uint8):
            return net
        if numbers == 0:  # categories alone
            return net
        both = nn.Sequential(Standardise(x.size, first=numbers), net)
        both.broadcasts_runs = True  # type: ignore[assignment] # as both of them do
        return both


def fit_for_streams(methods: Mapping[str, type[Method]]) -> dict[str, type[Method]]:
    """The methods that ask for no more than a stream gives."""
    return {
        name: kind
        for name, kind in methods.items()
        if not (kind.needs.boundaries or kind.needs.task_id or kind.needs.all_data)
    }


def _method(kind: type[Method], chosen: argparse.Namespace) -> Method:
    given = {n: v for n, v in given_values(chosen).items()
             if n not in NUMBERS or n in hyperparameters(kind)}  # fmt: skip
    found = axes_of(kind, None, None, {**given, "lr": chosen.lr})
    values = {name: found[name][0] for name in hyperparameters(kind)}
    return kind(**{name: int(v) if name in static(kind) else v for name, v in values.items()})


def _check(chosen: argparse.Namespace, sources: list[str]) -> None:
    if chosen.width < 1 or any(units < 1 for units in chosen.hidden):
        raise InputError("--hidden and --width are numbers of units, each at least 1")
    if chosen.standardise and chosen.network == "resnet18":
        raise InputError("--standardise is for the mlp: resnet18 normalises within")
    if not re.fullmatch(r'tab|\\t|[^"\n\r]', chosen.delimiter or ",", re.DOTALL):
        raise InputError(f"--delimiter is one character, or tab, not {chosen.delimiter!r}")
    if len(set(sources)) < len(sources):
        raise InputError("a source is given twice")
    if chosen.idle is not None and not chosen.follow and STDIN not in sources:
        raise InputError("--idle ends what would wait: give it with --follow, or standard input")
    if chosen.replayed and STDIN not in sources:
        raise InputError("--replayed is for standard input: files continue where they were left")


def _value(text: str) -> Hashable:
    """A label as JSON has it, or as plain text."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, str | int | float) else text
