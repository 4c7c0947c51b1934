"""The result of one run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from torch import nn

from recollect.methods import Method
from recollect.train.curves import Curves, average_incremental, class_accuracies
from recollect.train.identity import ENVIRONMENT, UNKNOWN, Identity
from recollect.train.measures import PERCENT, worst
from recollect.train.networks import load_network
from recollect.train.optimisation import Optimisation
from recollect.train.provenance import MADE, Provenance

# Written to `made` unless they have these values.
OPTIONAL = {"optimiser": "sgd", "network_class": "", "method_title": ""}
DETAILS = ("curves", "confusion", "network_file")  # written to files only if requested
IMPORTED = "imported"  # the code of imported files without one, in version 0.1


@dataclass(frozen=True)
class Result:
    """The result of one run: its identity, and its scores in percent per setting.

    For regression and multi-label targets, there are metrics such as `rmse` instead of settings.
    Regression metrics are in the units of the stream, and infinite in a run that diverged (null in
    files).

    `train_seconds` is the fleet's training time divided by its number of runs. `stream`, `network`
    and `code` are fingerprints, `UNKNOWN` in results of old files (see `Identity`).
    `network_class` is the class of a network that is not the library's, or names the sizes that are
    not the library's defaults. `method_title` is set for methods that are not the library's.
    `provenance` has the machine, date and command, as far as they are known.

    `curves`, `confusion` (final confusion matrices over all tasks: row i is the true class, column
    j the predicted class) and `network_file` are None unless they were requested.
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
    network_class: str = ""
    method_title: str = ""
    provenance: Provenance = field(default=Provenance(), compare=False, repr=False)
    curves: Curves | None = None
    confusion: Mapping[str, Sequence[Sequence[int]]] | None = None
    network_file: str | None = None

    @property
    def anytime_accuracy(self) -> dict[str, float]:
        """The mean over all steps of the accuracy on tasks so far; empty without curves."""
        curves = self.curves
        return {setting: curves.anytime(setting) for setting in curves.accuracy} if curves else {}

    @property
    def average_incremental_accuracy(self) -> dict[str, float | None]:
        """The mean over tasks of the accuracy on all tasks so far, measured after each task."""
        return {setting: average_incremental(matrix) for setting, matrix in self.matrix.items()}

    @property
    def class_accuracy(self) -> dict[str, list[float | None]]:
        """The final accuracy on every class; empty without confusion matrices."""
        return {s: class_accuracies(counts) for s, counts in (self.confusion or {}).items()}

    def module(
        self,
        network: Callable[[], nn.Module] | nn.Module | None = None,
        method: type[Method] | None = None,
        file: Path | str | None = None,
    ) -> nn.Module:
        """Load the trained network, in evaluation mode, if it was saved.

        For a network that is not the library's, pass the `network` that was passed to `run`; for
        such a `method` that changes its network, its class. `file` is the path of a moved file.
        """
        return load_network(self, network, method, file)

    @property
    def identity(self) -> Identity:
        """The identity of the run."""
        # Old files have no precision, but their execution mentions bfloat16.
        precision = self.precision or precision_class(self.execution)
        parts = {each.name: getattr(self, each.name) for each in fields(Identity)}
        return Identity(**{**parts, "precision": precision})

    @property
    def settings(self) -> dict[str, Any]:
        """The optimiser, and its schedule if the learning rate is not constant."""
        return Optimisation.read(self.optimiser).settings

    def as_json(self) -> dict[str, Any]:
        """The result as JSON data for files; `made` has fingerprints and provenance."""
        data = asdict(self)
        data["accuracy"] = {s: _written(s, value) for s, value in self.accuracy.items()}
        if self.curves is not None:
            data["curves"]["accuracy"] = {
                setting: [[_written(setting, value) for value in row] for row in rows]
                for setting, rows in self.curves.accuracy.items()
            }
        origin = {name: value for name, value in data.pop("provenance").items() if value}
        made = dict.fromkeys(MADE, "") | {name: data.pop(name) for name in ENVIRONMENT} | origin
        optional = {name: data.pop(name) for name in OPTIONAL}
        made |= {name: value for name, value in optional.items() if value != OPTIONAL[name]}
        missing = [name for name in DETAILS if data[name] is None]
        return {name: value for name, value in data.items() if name not in missing} | {"made": made}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Result:
        """Read a result that `as_json` of this or an older version wrote."""
        facts = {name: value for name, value in data.items() if name != "made"}
        facts["accuracy"] = {s: _measured(s, value) for s, value in facts["accuracy"].items()}
        if curves := facts.get("curves"):
            found = {
                setting: [[_measured(setting, value) for value in row] for row in rows]
                for setting, rows in curves["accuracy"].items()
            }
            facts["curves"] = Curves(**{**curves, "accuracy": found})
        made = data.get("made") or {}
        known = {name: made[name] for name in (*ENVIRONMENT, *OPTIONAL) if made.get(name)}
        if known.get("code") == IMPORTED:
            del known["code"]
        if "precision" in known:
            known["precision"] = precision_class(known["precision"])
        return cls(**facts, **known, provenance=Provenance.from_json(made))


def _written(setting: str, value: float) -> float | None:
    """A score for JSON, which has no infinity: None for the error of a run that diverged."""
    return None if setting not in PERCENT and math.isinf(value) else value


def _measured(setting: str, value: float | None) -> float:
    return worst(setting) if value is None else value


def precision_class(text: str) -> str:
    """Classify a description of the precision as `bf16` or `float32`.

    >>> precision_class("bf16 autocast, TF32"), precision_class("float32, TF32")
    ('bf16', 'float32')
    """
    return "bf16" if "bf16" in text else "float32"
