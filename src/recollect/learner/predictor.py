"""What can be asked of a learner at any time, from any thread."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
from torch import Tensor, nn

from recollect.learner.adapting import in_units
from recollect.learner.answers import Answers, empty_record
from recollect.learner.examples import tensor_of
from recollect.learner.fair_lock import FairLock
from recollect.learner.properties import Properties
from recollect.learner.settings import Settings
from recollect.learner.snapshot import Snapshot
from recollect.learner.values import Values

__all__ = ["Predictor"]


class Predictor(Properties):
    """A network with its labels and its record of predictions, which a `Learner` changes."""

    def __init__(self, module: nn.Module, settings: Settings, labels: Answers, window: int) -> None:
        self._module, self._settings = module, settings
        self._now = Snapshot(None, labels, empty_record(settings.target, window))
        self._lock = FairLock()

    def predict(self, x: Any) -> Any:
        """The label of one example, or a list of labels for a batch.

        With several labels it is a set for each; values are a number or an array, in your units.
        """
        scores, answers, several = self._scores(x)
        found = answers.decode(scores)
        return found if several else found[0]

    def predict_proba(self, x: Any) -> np.ndarray:
        """The probability of every class in `classes`, `[n, classes]` for a batch."""
        scores, answers, several = self._scores(x)
        with self._now.ready().threads(len(scores)):
            shares: np.ndarray = answers.shares(scores).cpu().numpy()
        return shares if several else shares[0]

    def metrics(self) -> Any:
        """How well it predicted what it was about to learn: overall, lately, per class.

        `Metrics` for classes, `ValueMetrics` for values, `LabelMetrics` for several labels.
        """
        now = self._now
        return now.record.metrics(now.labels.known, now.watch.left_out)

    def trained_module(self) -> nn.Module:
        """A copy of the network with all that was learned, for use without recollect.

        It has one output for every class in `classes`, in that order, or for every value.
        """
        with self._lock:
            module, known = self._now.ready().trained(len(self._now.labels)), self._now.labels
        return in_units(module, known) if isinstance(known, Values) else module

    def _scores(self, x: Any) -> tuple[Tensor, Answers, bool]:
        """The scores `[n, classes]` of what is known, this, and whether x was a batch."""
        examples, engine = tensor_of(x), self._now.ready()
        arrived, several = engine.kind.arriving.batch(examples, self._settings.device)
        batch = self._settings.encoded(arrived)
        with self._lock if engine.draws else nullcontext():
            scores, answers = engine.scores(batch)
        return scores, answers, several
