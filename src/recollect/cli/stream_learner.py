"""Create the learner of `recollect stream` from its options, checked before anything is read."""

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

from recollect.cli.options import given_values
from recollect.cli.stream_checks import check_options, method_for_streams
from recollect.errors import InputError
from recollect.experiments.values import axes_of
from recollect.feeds import STDIN, Reading
from recollect.learner import Learner
from recollect.live.state import StateFolder
from recollect.methods import (
    ClosedForm,
    Method,
    hyperparameters,
    omitted_defaults,
    recorded_values,
    static,
    symbol,
)
from recollect.methods.usual import FORMERLY, USUAL
from recollect.nets import MLP, ResNet18, Standardise
from recollect.train import device_named
from recollect.train.devices import one_thread
from recollect.train.optimisation import NUMBERS

BATCH, MEMORY, MAX_CLASSES, CATEGORIES, WIDTH = 10, 500, 1000, 32, 64
HIDDEN = [100, 100]
TAB = ("tab", "\\t")
SETTINGS = (
    "label", "features", "ignore", "delimiter", "header", "order", "size", "lr", "replay",
    "network", "hidden", "width", "standardise", "classes", "optimiser", "seed", "window",
)  # fmt: skip


@final
class StreamSetup:
    """The sources and the learner from the options; raise `InputError` if these are not valid."""

    def __init__(self, chosen: argparse.Namespace) -> None:
        kind = type(USUAL) if chosen.method is None else method_for_streams(chosen.method)
        memory = MEMORY if chosen.memory is None else chosen.memory
        self.sources = [s if s == STDIN else str(Path(s).absolute()) for s in chosen.sources]
        self.labels = [s if s == STDIN else str(Path(s).absolute()) for s in chosen.labels]
        check_options(chosen, kind, [*self.sources, *self.labels])
        usual_sizes = {"order": chosen.order or "time", "width": chosen.width or WIDTH}
        self.chosen = chosen = argparse.Namespace(**vars(chosen) | usual_sizes)
        before = {} if chosen.fresh else StateFolder(self.folder).settings()
        if chosen.hidden is None:
            self.chosen = chosen = _with_hidden(kind, chosen, before)
        usual = chosen.method is None
        self.method = _usual(chosen, before) if usual else _method(kind, chosen, {})
        numbers = {name: value for name, value in given_values(chosen).items() if name in NUMBERS}
        self._numbers: Any = {n: v for n, v in numbers.items() if n not in hyperparameters(kind)}
        self.batch = (kind.needs.batch_size or BATCH) if chosen.batch is None else chosen.batch
        self.memory = int(memory) if str(memory).isascii() and str(memory).isdigit() else memory
        self.device = device_named(
            chosen.device or ("auto" if chosen.network == "resnet18" else "cpu")
        )
        self._learner(MLP(1, 1, ()), chosen.classes)  # raises an error for invalid arguments

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that must be the same to resume a stream."""
        found = {name: getattr(self.chosen, name) for name in SETTINGS}
        found |= {"method": self.method.name, "memory": self.memory, "batch": self.batch}
        # None for options that are not given, as in states saved before these options existed.
        values = {
            **dict.fromkeys(omitted_defaults(type(self.method))),
            **recorded_values(self.method),
        }
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
        """The folder for the state; by default one for each combination of sources and label."""
        if self.chosen.checkpoint is not None:
            return Path(self.chosen.checkpoint)
        joined = [self.labels] if self.labels else []
        facts = json.dumps([self.sources, self.chosen.label, *joined])
        name = "stdin" if self.sources == [STDIN] else Path(self.sources[0]).stem
        plain = re.sub(r"[^\w-]+", "-", name, flags=re.ASCII).strip("-") or "stream"
        return Path(".recollect") / f"{plain}-{hashlib.sha256(facts.encode()).hexdigest()[:8]}"

    def reading(self, say: Callable[[str], None]) -> Reading:
        """Return the options for reading the sources."""
        chosen = self.chosen
        delimiter = "\t" if chosen.delimiter in TAB else chosen.delimiter
        return Reading(
            chosen.format, chosen.label, chosen.features, chosen.ignore, delimiter, chosen.header,
            chosen.order, chosen.size, chosen.follow, chosen.skip_bad, chosen.replayed,
            missing=chosen.missing, categorical=chosen.categorical, categories=chosen.categories,
            drop_text=chosen.drop_text, id=chosen.id, keep=chosen.keep, say=say,
            labelled=chosen.label is not None or not self.labels,
        )  # fmt: skip

    def threads(self) -> AbstractContextManager[None]:
        """Return a context with one thread for small networks, which gain nothing from more."""
        return one_thread() if self.chosen.network == "mlp" else nullcontext()

    def learner(
        self,
        x: np.ndarray,
        format: str,  # noqa: A002 - as the option
        numbers: int | None,
    ) -> Learner:
        """Create a new learner for examples like `x`, whose first `numbers` features are numeric.

        All of them are if `numbers` is None.
        """
        classes = self.chosen.classes
        if classes is not None and format in ("jsonl", "parquet"):  # typed formats
            classes = [_value(text) for text in classes]
        return self._learner(self._network(x, numbers), classes)

    def _learner(self, network: nn.Module, classes: Sequence[Hashable] | None) -> Learner:
        chosen = self.chosen
        return Learner(
            network,
            self.method,
            memory=self.memory if self.method.replay else None,
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
        """Create a network for examples like `x`; its single output grows with the classes."""
        chosen = self.chosen
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(chosen.seed)
            if chosen.network == "resnet18":
                if x.ndim != 3:
                    raise InputError(f"resnet18 needs images, not examples of shape {[*x.shape]}")
                return ResNet18(1, chosen.width, len(x))
            net = MLP(x.size, 1, chosen.hidden)
        if chosen.standardise is False or (chosen.standardise is None and x.dtype == np.uint8):
            return net
        if numbers == 0:  # only categorical features
            return net
        both = nn.Sequential(Standardise(x.size, first=numbers), net)
        both.broadcasts_runs = True  # type: ignore[assignment] # as both of them do
        return both


def in_words(method: Method) -> str:
    """Format a method and its hyper-parameters as command-line options.

    >>> from recollect import DERpp
    >>> in_words(DERpp(alpha=0.2))
    'derpp with --alpha 0.2 --beta 0.5'
    """
    options = " ".join(
        f"--{symbol(name)} {value:g}" for name, value in recorded_values(method).items()
    )
    return f"{method.name} with {options}" if options else method.name


def _usual(chosen: argparse.Namespace, before: Mapping[str, Any]) -> Method:
    """Create the default method with the given hyper-parameters.

    A state that was saved with an earlier default continues with that one.
    """
    made = [_method(type(each), chosen, recorded_values(each)) for each in (USUAL, *FORMERLY)]
    for each in made:
        values = {symbol(name): value for name, value in recorded_values(each).items()}
        if values.items() <= before.items() and before.get("method") == each.name:
            return each
    return made[0]


def _with_hidden(
    kind: type[Method], chosen: argparse.Namespace, before: Mapping[str, Any]
) -> argparse.Namespace:
    """Set the default hidden layers; none for methods that do not train layers.

    A state that was saved when all methods had hidden layers continues with them.
    """
    trains = not issubclass(kind, ClosedForm)
    begun = before.get("method") == kind.name and before.get("hidden") == HIDDEN
    return argparse.Namespace(**vars(chosen) | {"hidden": HIDDEN if trains or begun else []})


def _method(kind: type[Method], chosen: argparse.Namespace, usual: Mapping[str, float]) -> Method:
    given = {n: v for n, v in given_values(chosen).items()
             if n not in NUMBERS or n in hyperparameters(kind)}  # fmt: skip
    named = {symbol(name): value for name, value in usual.items()}
    found = axes_of(kind, None, None, {**named, **given, "lr": chosen.lr})
    values = {name: found[name][0] for name in hyperparameters(kind)}
    return kind(**{name: int(v) if name in static(kind) else v for name, v in values.items()})


def _value(text: str) -> Hashable:
    """Parse a label as JSON, or return it as text."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, str | int | float) else text
