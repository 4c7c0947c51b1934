"""What can be asked of a learner at any time, from any thread."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import nullcontext
from typing import Any

import numpy as np
from torch import Tensor, nn

from recollect.learner.examples import tensor_of
from recollect.learner.fair_lock import FairLock
from recollect.learner.labels import Labels
from recollect.learner.properties import Properties
from recollect.learner.record import Metrics, Record
from recollect.learner.settings import Settings
from recollect.learner.snapshot import Snapshot

__all__ = ["Predictor"]


class Predictor(Properties):
    """A network with its labels and its record of predictions, which a `Learner` changes."""

    def __init__(self, module: nn.Module, settings: Settings, labels: Labels, window: int) -> None:
        self._module, self._settings = module, settings
        self._now = Snapshot(None, labels, Record.empty(window))
        self._lock = FairLock()

    def predict(self, x: Any) -> Any:
        """The label of one example, or a list of labels for a batch."""
        logits, known, several = self._logits(x)
        labels = [known[index] for index in logits.argmax(1).tolist()]
        return labels if several else labels[0]

    def predict_proba(self, x: Any) -> np.ndarray:
        """The probability of every class in `classes`, `[n, classes]` for a batch."""
        logits, _, several = self._logits(x)
        with self._now.ready().threads(len(logits)):
            shares: np.ndarray = logits.double().softmax(1).cpu().numpy()
        return shares if several else shares[0]

    def metrics(self) -> Metrics:
        """How well it predicted what it was about to learn: overall, lately, per class."""
        now = self._now
        alarms = now.drift.alarms if now.drift else 0
        return now.record.metrics(now.labels.known, now.watch.left_out, alarms)

    def trained_module(self) -> nn.Module:
        """A copy of the network with all that was learned, for use without recollect.

        It has one output for every class in `classes`, in that order.
        """
        with self._lock:
            return self._now.ready().trained(len(self._now.labels))

    def _logits(self, x: Any) -> tuple[Tensor, tuple[Hashable, ...], bool]:
        """The logits of the known classes `[n, classes]`, these, and whether x was a batch."""
        examples, engine = tensor_of(x), self._now.ready()
        arrived, several = engine.kind.arriving.batch(examples, self._settings.device)
        batch = self._settings.encoded(arrived)
        with self._lock if engine.draws else nullcontext():
            logits, labels = engine.scores(batch)
        return logits, labels.known, several
