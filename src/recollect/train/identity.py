"""The identity of a run: everything that its result depends on, and a short key for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, final

UNKNOWN = ""
LETTERS = 24

# The parts that are not known from a command line, but only from the data and network.
ENVIRONMENT = ("stream", "network", "code", "precision")


@final
@dataclass(frozen=True)
class Identity:
    """The identity of a run: two runs with the same identity are the same experiment.

    `stream`, `network` and `code` are fingerprints of the data, the network and the source code
    that trains the run; `precision` is `float32` or `bf16`. `Job.identities` computes them once,
    before training. A `Result` contains them, and the result store, checkpoints, exports and
    reports compare runs by `key` and `key_without` only.

    A part that is missing in an old file is `UNKNOWN`, which is a value like any other: runs with
    the same unknown parts and otherwise equal identities belong together, but are never pooled
    with a run in which the part is known.

    >>> from dataclasses import replace
    >>> ours = Identity("seq-mnist", "6b8a", "sgd", "7ced", "c0de", {"lr": 0.1}, None, 1, False, 0)
    >>> theirs = replace(ours, network="b16b")
    >>> ours.key == theirs.key, ours.key_without("network") == theirs.key_without("network")
    (False, True)
    """

    benchmark: str
    stream: str
    method: str
    network: str
    code: str
    hyperparameters: Mapping[str, float]
    buffer: int | None
    epochs: int
    validation: bool
    seed: int
    precision: str = "float32"
    optimiser: str = "sgd"

    @property
    def key(self) -> str:
        """A short hash of all parts."""
        return self.key_without()

    def key_without(self, *parts: str) -> str:
        """A short hash of all parts except these.

        Without the seed, it identifies the runs to average; without the code, a run that may have
        been trained again after the code changed.
        """
        facts = {name: value for name, value in self.as_fields().items() if name not in parts}
        if values := facts.pop("hyperparameters", None):
            facts["hyperparameters"] = {name: float(value) for name, value in values.items()}
        return hashed(facts)

    def as_fields(self) -> dict[str, Any]:
        """The parts by name, which are also fields of a `Result`."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def hashed(data: object) -> str:
    """A short hash of JSON data."""
    text = json.dumps(data, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:LETTERS]
