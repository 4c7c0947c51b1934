"""What can be asked of a learner at any time, from any thread."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recollect.errors import InputError
from recollect.learner.adapting import in_units
from recollect.learner.answers import Answers, empty_record
from recollect.learner.examples import tensor_of
from recollect.learner.fair_lock import FairLock
from recollect.learner.labels import Labels
from recollect.learner.metrics import Metrics
from recollect.learner.parts import query
from recollect.learner.pending import ids_of
from recollect.learner.properties import Properties
from recollect.learner.settings import Settings
from recollect.learner.snapshot import Snapshot
from recollect.learner.values import Values

__all__ = ["Predictor"]

WORDS = {
    "class": ("class", "classes"), "regression": ("value", "values"), "labels": ("label", "labels"),
}  # fmt: skip


class Predictor(Properties):
    """A network with its labels and its record of predictions, which a `Learner` changes."""

    def __init__(self, module: nn.Module, settings: Settings, labels: Answers, window: int) -> None:
        self._module, self._settings = module, settings
        self._now = Snapshot(None, labels, empty_record(settings.target, window))
        self._lock = FairLock()

    def __repr__(self) -> str:
        """The method, the number of classes, values or labels, and the metrics, in a line."""
        known, (one, many) = len(self._now.labels), WORDS[self.target]
        what = f"{known} {one if known == 1 else many}"
        return f"<Learner: {self.method.title}, {what}, {self.metrics()}>"

    def predict(self, x: Any, *, ids: Any = None) -> Any:
        """The label of one example, or a list of labels for a batch.

        With several labels it is a set for each; values are a number or an array, in your units.

        With an id for every example, `label` can learn from them when their labels arrive; as long
        as no class is known, the answers are then None.
        """
        scores, answers, several = self._scores(x, ids)
        found = _decoded(answers, scores)
        if ids is not None:
            self._keep(x, ids, found)
        return found if several else found[0]

    def predict_proba(self, x: Any, *, ids: Any = None) -> np.ndarray:
        """The probability of every class in `classes`, `[n, classes]` for a batch.

        With ids, the most probable class is the answer that waits for its label, as in `predict`.
        """
        scores, answers, several = self._scores(x, ids)
        if ids is not None:
            self._keep(x, ids, _decoded(answers, scores))
        engine = self._now.engine
        with engine.threads(len(scores)) if engine else nullcontext():
            shares: np.ndarray = answers.shares(scores).cpu().numpy()
        return shares if several else shares[0]

    def metrics(self) -> Metrics:
        """How well it predicted what it was about to learn: overall, lately, per class."""
        now = self._now
        alarms = now.drift.alarms if now.drift else 0
        return now.record.metrics(now.labels.known, now.watch.left_out, alarms)

    def trained_module(self) -> nn.Module:
        """A copy of the network with all that was learned, for use without recollect.

        It has one output for every class in `classes`, in that order, or for every value.
        """
        with self._lock:
            module, known = self._now.ready().trained(len(self._now.labels)), self._now.labels
        return in_units(module, known) if isinstance(known, Values) else module

    @abstractmethod
    def _keep(self, x: Any, ids: Any, answers: list[Hashable]) -> None:
        """Have examples with ids, and the answers to them, wait for their labels."""

    def _scores(self, x: Any, ids: Any = None) -> tuple[Tensor, Answers, bool]:
        """The scores `[n, classes]` of what is known, this, and whether x was a batch."""
        if ids is not None and self._settings.target.name != "class":
            raise InputError("ids are for labels of classes: leave them out for other targets")
        if ids is not None and self._now.engine is None:
            named, several = ids_of(ids)
            return torch.zeros(len(named), 0), Labels(), several
        examples = x if isinstance(x, Mapping | list | tuple) else tensor_of(x)
        engine = self._now.ready()
        arriving = engine.kind.arriving
        arrived, several = query(examples, arriving, self._settings.device)
        batch = self._settings.encoded(arrived, arriving.packing)
        with self._lock if engine.draws else nullcontext():
            scores, answers = engine.scores(batch)
        return scores, answers, several


def _decoded(answers: Answers, scores: Tensor) -> Any:
    """What scores `[n, outputs]` predict; None as long as no class is known."""
    if isinstance(answers, Labels) and not len(answers):
        return [None] * len(scores)
    return answers.decode(scores)
