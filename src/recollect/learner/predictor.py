"""What can be asked of a learner at any time, from any thread."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recollect.learner.examples import tensor_of
from recollect.learner.fair_lock import FairLock
from recollect.learner.labels import Labels
from recollect.learner.parts import query
from recollect.learner.pending import ids_of
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

    def __repr__(self) -> str:
        """The method, the number of classes and the prequential accuracy, in a line."""
        known = len(self._now.labels)
        classes = f"{known} class{'' if known == 1 else 'es'}"
        return f"<Learner: {self.method.title}, {classes}, {self.metrics()}>"

    def predict(self, x: Any, *, ids: Any = None) -> Any:
        """The label of one example, or a list of labels for a batch.

        With an id for every example, `label` can learn from them when their labels arrive; as long
        as no class is known, the answers are then None.
        """
        logits, known, several = self._logits(x, ids)
        labels = _best(logits, known)
        if ids is not None:
            self._keep(x, ids, labels)
        return labels if several else labels[0]

    def predict_proba(self, x: Any, *, ids: Any = None) -> np.ndarray:
        """The probability of every class in `classes`, `[n, classes]` for a batch.

        With ids, the most probable class is the answer that waits for its label, as in `predict`.
        """
        logits, known, several = self._logits(x, ids)
        if ids is not None:
            self._keep(x, ids, _best(logits, known))
        engine = self._now.engine
        with engine.threads(len(logits)) if engine else nullcontext():
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

    @abstractmethod
    def _keep(self, x: Any, ids: Any, answers: list[Hashable]) -> None:
        """Have examples with ids, and the answers to them, wait for their labels."""

    def _logits(self, x: Any, ids: Any = None) -> tuple[Tensor, tuple[Hashable, ...], bool]:
        """The logits of the known classes `[n, classes]`, these, and whether x was a batch."""
        if ids is not None and self._now.engine is None:
            named, several = ids_of(ids)
            return torch.zeros(len(named), 0), (), several
        examples = x if isinstance(x, Mapping | list | tuple) else tensor_of(x)
        engine = self._now.ready()
        arriving = engine.kind.arriving
        arrived, several = query(examples, arriving, self._settings.device)
        batch = self._settings.encoded(arrived, arriving.packing)
        with self._lock if engine.draws else nullcontext():
            logits, labels = engine.scores(batch)
        return logits, labels.known, several


def _best(logits: Tensor, known: tuple[Hashable, ...]) -> list[Hashable]:
    """The labels of the largest logits `[n, classes]`; None for each if no class is known."""
    return [known[index] for index in logits.argmax(1).tolist()] if known else [None] * len(logits)
