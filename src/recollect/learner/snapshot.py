"""The whole state of a learner between two steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from recollect.errors import InputError
from recollect.learner.engine import Engine
from recollect.learner.labels import Labels
from recollect.learner.record import Metrics, Record

__all__ = ["Snapshot"]


class Snapshot(NamedTuple):
    """A learner's engine, labels and record; a step leads from one snapshot to the next.

    There is no engine until the first examples have arrived.
    """

    engine: Engine | None
    labels: Labels
    record: Record

    def ready(self) -> Engine:
        """The engine; refused if there is none yet."""
        if self.engine is None:
            raise InputError("nothing was observed yet: call observe first")
        return self.engine

    def metrics(self) -> Metrics:
        """The prequential accuracy, by the names of the labels."""
        return self.record.metrics(self.labels.known)

    def logits(self, batch: Tensor) -> Tensor:
        """The logits of the known classes, `[n, classes]`, of a batch `[n, ...]`."""
        return self.ready().logits(batch)[:, : len(self.labels)]

    def guesses(self, batch: Tensor) -> np.ndarray:
        """The outputs `[n]` that are predicted for a batch; -1 as long as no class is known."""
        if self.engine is None or not self.labels:
            return np.full(len(batch), -1)
        found: np.ndarray = self.logits(batch).argmax(1).cpu().numpy()
        return found
