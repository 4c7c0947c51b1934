"""What a person asked of `recollect stream`, checked before anything is read."""

from __future__ import annotations

import argparse
import hashlib
import json
import re
from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import nn

from recollect.cli.common import notice
from recollect.cli.stream_stop import Stop
from recollect.errors import InputError
from recollect.experiments.values import axes_of
from recollect.feeds import STDIN, Reading, Record
from recollect.files import check_writable
from recollect.learner import Learner
from recollect.memory import ClassRing
from recollect.methods import Method, every_method, hyperparameters, method, static, symbol
from recollect.nets import MLP, ResNet18, Standardise
from recollect.train import device_named
from recollect.train.parallel import one_thread

__all__ = ["Plan", "fit_for_streams", "plan_of"]

BATCH, MEMORY = 10, 500


@final
@dataclass
class Plan:
    """The sources, what is made of them, and where it goes.

    `settings` are those that what was learned depends on, as plain data: a stream is continued
    with the same.
    """

    chosen: argparse.Namespace
    sources: list[str]
    method: Method
    batch: int
    memory: int | str
    device: torch.device
    settings: dict[str, Any]

    @property
    def predictions(self) -> str | None:
        """The file for predictions, `-` for the output, or None."""
        given: str | None = self.chosen.predictions
        return str(Path(given).absolute()) if given and given != STDIN else given

    @property
    def window(self) -> int:
        """How many examples count as recent."""
        window: int = self.chosen.window
        return window

    @property
    def endless(self) -> bool:
        """Whether the stream ends when someone ends it."""
        return bool(self.chosen.follow) or self.sources == [STDIN]

    def reading(self, stop: Stop) -> Reading:
        """How the sources are read."""
        chosen = self.chosen
        return Reading(
            chosen.format, chosen.label, chosen.features, chosen.ignore, _tab(chosen.delimiter),
            chosen.header, chosen.order, chosen.size, chosen.follow, chosen.skip_bad,
            chosen.replayed, lambda: stop.asked, notice,
        )  # fmt: skip

    def default_folder(self) -> Path:
        """A folder of its own for these sources and this label."""
        facts = json.dumps([self.sources, self.chosen.label])
        name = "stdin" if self.sources == [STDIN] else Path(self.sources[0]).stem
        plain = re.sub(r"[^\w-]+", "-", name, flags=re.ASCII).strip("-") or "stream"
        return Path(".recollect") / f"{plain}-{hashlib.sha256(facts.encode()).hexdigest()[:8]}"

    def threads(self) -> AbstractContextManager[None]:
        """One thread for small networks: they gain nothing from a second."""
        return one_thread() if self.chosen.network == "mlp" else nullcontext()

    def classes(self, format: str) -> list[Hashable] | None:  # noqa: A002 - as the option
        """All classes, if they are given; of formats with types, numbers are numbers."""
        given: list[str] | None = self.chosen.classes
        if given is None or format in ("csv", "images"):
            return None if given is None else list(given)
        return [_value(text) for text in given]

    def network(self, shape: Sequence[int], image: bool) -> nn.Module:
        """A network for examples of that shape, with a head of one output that grows."""
        chosen = self.chosen
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(chosen.seed)
            if chosen.network == "resnet18":
                if len(shape) != 3:
                    raise InputError(f"resnet18 takes images, not examples of shape {[*shape]}")
                return ResNet18(1, chosen.width, shape[0])
            size = torch.Size(shape).numel()
            net = MLP(size, 1, chosen.hidden)
        standardised = not image if chosen.standardise is None else chosen.standardise
        if not standardised:
            return net
        both = nn.Sequential(Standardise(size), net)
        both.broadcasts_runs = True  # type: ignore[assignment] # as both of them do
        return both

    def learner(self, record: Record, format: str, folder: Path) -> Learner:  # noqa: A002
        """A learner that has seen nothing, for records such as this one."""
        chosen = self.chosen
        return Learner(
            self.network(record.x.shape, record.x.dtype == "uint8"),
            self.method,
            memory=self.memory,
            lr=chosen.lr,
            seed=chosen.seed,
            replay=chosen.replay,
            optimiser=chosen.optimiser,
            classes=self.classes(format),
            device=self.device,
            window=chosen.window,
            checkpoints=folder,
        )


def plan_of(chosen: argparse.Namespace) -> Plan:
    """The plan, or an error that says what cannot be."""
    kind = method(chosen.method)
    if kind.name not in fit_for_streams():
        raise InputError(
            f"{kind.title} is not fit for a stream, which has no task boundaries: take one of "
            f"{', '.join(fit_for_streams())}"
        )
    if chosen.memory is not None and kind.replay is None:
        raise InputError(f"{kind.title} keeps no memory: leave --memory out")
    values = _hyperparameters(kind, chosen)
    if isinstance(kind(**values).rule(1), ClassRing) and chosen.classes is None:
        raise InputError(f"{kind.title} shares its memory among the classes: give all as --classes")
    for name, least in (("batch", 1), ("replay", 1), ("window", 1), ("width", 1), ("seed", 0)):
        number = getattr(chosen, name)
        if number is not None and number < least:
            raise InputError(f"--{name} must be at least {least}, not {number}")
    if chosen.standardise and chosen.network == "resnet18":
        raise InputError("--standardise is for the mlp: resnet18 normalises within")
    if any(units < 1 for units in chosen.hidden):
        raise InputError(f"--hidden must be numbers of units, each at least 1, not {chosen.hidden}")
    if len({*(chosen.classes or ())}) < len(chosen.classes or ()):
        raise InputError("--classes has a label twice")
    delimiter = _tab(chosen.delimiter)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\n\r'):
        raise InputError(f"--delimiter is one character, or tab, not {chosen.delimiter!r}")
    sources = [s if s == STDIN else str(Path(s).absolute()) for s in chosen.sources]
    _check_places(chosen, sources)
    memory = MEMORY if chosen.memory is None else chosen.memory
    memory = int(memory) if str(memory).isascii() and str(memory).isdigit() else memory
    batch = chosen.batch or kind.needs.batch_size or BATCH
    device = chosen.device or ("auto" if chosen.network == "resnet18" else "cpu")
    names = (
        "label", "features", "ignore", "delimiter", "header", "order", "size", "lr", "replay",
        "network", "hidden", "width", "standardise", "classes", "optimiser", "seed", "window",
    )  # fmt: skip
    settings = {name: getattr(chosen, name) for name in names}
    settings |= {"method": kind.name, "memory": memory, "batch": batch}
    settings |= {symbol(name): value for name, value in values.items()}
    return Plan(
        chosen, sources, kind(**values), batch, memory, device_named(device),
        json.loads(json.dumps(settings)),
    )  # fmt: skip


def fit_for_streams() -> list[str]:
    """The methods that ask for no more than a stream gives."""
    return [
        name
        for name, kind in every_method().items()
        if not (kind.needs.boundaries or kind.needs.task_id or kind.needs.all_data)
    ]


def _hyperparameters(kind: type[Method], chosen: argparse.Namespace) -> dict[str, Any]:
    known = every_method()
    every = {symbol(n) for name in fit_for_streams() for n in hyperparameters(known[name])}
    given = {name: getattr(chosen, name) for name in every if getattr(chosen, name) is not None}
    found = axes_of(kind, None, None, {**given, "lr": chosen.lr})
    own = {name: found[name][0] for name in hyperparameters(kind)}
    return {name: int(v) if name in static(kind) else v for name, v in own.items()}


def _check_places(chosen: argparse.Namespace, sources: Sequence[str]) -> None:
    if len(set(sources)) < len(sources):
        raise InputError("a source is given twice")
    if chosen.idle is not None and not chosen.follow and sources != [STDIN]:
        raise InputError("--idle ends what would wait: give it with --follow, or standard input")
    if chosen.replayed and sources != [STDIN]:
        raise InputError("--replayed is for standard input: files continue where they were left")
    if chosen.predictions and chosen.predictions != STDIN:
        check_writable(chosen.predictions)
        if str(Path(chosen.predictions).absolute()) in sources:
            raise InputError("--predictions would overwrite what is read: give another file")
    if chosen.checkpoint is not None and chosen.checkpoint.is_file():
        raise InputError(f"--checkpoint is a folder, and {chosen.checkpoint} is a file")


def _tab(delimiter: str | None) -> str | None:
    return "\t" if delimiter in ("tab", "\\t") else delimiter


def _value(text: str) -> Hashable:
    """A label as JSON has it, or as plain text."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, str | int | float) else text
