"""The identity of a run: everything that its result depends on, and a short key for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, final

__all__ = ["ENVIRONMENT", "UNKNOWN", "Identity", "hashed"]

UNKNOWN = ""
LETTERS = 24

# The parts that a command line does not say: they are known when data and network are at hand.
ENVIRONMENT = ("stream", "network", "code", "precision")


@final
@dataclass(frozen=True)
class Identity:
    """What a run is: two runs with one identity are the same experiment.

    `stream` and `network` are fingerprints of the data and of the network, `code` is one of the
    source that computes the run, and `precision` is `float32` or `bf16`. `Job.identities` computes
    them once, before training; a `Result` carries them, and the result store, checkpoints, exports
    and reports compare runs by `key` and `key_without` alone.

    A part that an old file does not say is `UNKNOWN`. Unknown is a value of its own: runs that lack
    the same parts and are equal in all others belong together, and none of them is pooled with a
    run whose part is known, whichever that is.

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
        """A short name for all parts together."""
        return self.key_without()

    def key_without(self, *parts: str) -> str:
        """A short name for all parts but these.

        Without the seed, it names the runs that a mean is taken of; without the code, a run that
        may have been trained again after the code changed.
        """
        facts = {name: value for name, value in self.as_fields().items() if name not in parts}
        if values := facts.pop("hyperparameters", None):
            facts["hyperparameters"] = {name: float(value) for name, value in values.items()}
        return hashed(facts)

    def as_fields(self) -> dict[str, Any]:
        """The parts by name: the fields of a `Result` that say what was run."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def hashed(data: object) -> str:
    """A short name for plain data."""
    text = json.dumps(data, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:LETTERS]
