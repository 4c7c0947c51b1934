"""Predictions, metrics and export of a learner, at any time and from any thread."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recollect.errors import InputError
from recollect.learner.engine.adapting import in_units
from recollect.learner.fair_lock import FairLock
from recollect.learner.inputs.examples import tensor_of
from recollect.learner.inputs.parts import query
from recollect.learner.late.pending import ids_of
from recollect.learner.monitoring.metrics import Metrics
from recollect.learner.properties import Properties
from recollect.learner.saving.snapshot import Snapshot
from recollect.learner.settings import Settings
from recollect.learner.targets.answers import Answers, empty_record
from recollect.learner.targets.labels import Labels
from recollect.learner.targets.values import Values

WORDS = {
    "class": ("class", "classes"), "regression": ("value", "values"), "labels": ("label", "labels"),
}  # fmt: skip


class Predictor(Properties):
    """The prediction methods of a `Learner`."""

    def __init__(self, module: nn.Module, settings: Settings, labels: Answers, window: int) -> None:
        self._module, self._settings = module, settings
        self._now = Snapshot(None, labels, empty_record(settings.target, int(window)))
        self._lock = FairLock()

    def __repr__(self) -> str:
        known, (one, many) = len(self._now.labels), WORDS[self.target]
        what = f"{known} {one if known == 1 else many}"
        return f"<Learner: {self.method.title}, {what}, {self.metrics()}>"

    def predict(self, x: Any, *, ids: Any = None) -> Any:
        """Predict the label of one example, or the labels of a batch.

        Any thread may call this, also while another thread learns.

        Args:
            x: An example or a batch, of the shape and type that was learned.
            ids: An id for every example, if its label may arrive later: `label` then learns from
                the example by its id. Only for `target="class"`.

        Returns:
            A label, or a list of labels for a batch. With `target="labels"`, a set of labels for
            each example; with `target="regression"`, a number or an array, in the units of y. With
            ids, None for each example until the first label has been learned.

        Raises:
            InputError: Nothing has been learned yet (without ids), or x has another shape or type.
        """
        scores, answers, several = self._scores(x, ids)
        found = _decoded(answers, scores)
        if ids is not None:
            self._keep(x, ids, found)
        return found if several else found[0]

    def predict_proba(self, x: Any, *, ids: Any = None) -> np.ndarray:
        """Predict the probability of every class.

        Args:
            x: An example or a batch, as for `predict`.
            ids: An id for every example, as for `predict`; the most probable class counts as the
                prediction.

        Returns:
            An array `[classes]`, or `[n, classes]` for a batch, in the order of `classes`.

        Raises:
            InputError: The learner predicts numbers (`target="regression"`), or as for `predict`.
        """
        scores, answers, several = self._scores(x, ids)
        if ids is not None:
            self._keep(x, ids, _decoded(answers, scores))
        engine = self._now.engine
        with engine.threads(len(scores)) if engine else nullcontext():
            shares: np.ndarray = answers.shares(scores).cpu().numpy()
        return shares if several else shares[0]

    def metrics(self) -> Metrics:
        """Compute the prequential metrics: overall, over the latest examples and per class.

        Every example is predicted before it is learned, and these predictions are evaluated.
        """
        now = self._now
        alarms = now.drift.alarms if now.drift else 0
        return now.record.metrics(now.labels.known, now.watch.left_out, alarms)

    def trained_module(self) -> nn.Module:
        """Export a copy of the trained network, for use without recollect.

        It includes the encoder, and has one output for every class in `classes`, in that order; for
        regression, one for every value, in the units of y.

        Raises:
            InputError: Nothing has been learned yet.
        """
        with self._lock:
            module, known = self._now.ready().trained(len(self._now.labels)), self._now.labels
        return in_units(module, known) if isinstance(known, Values) else module

    @abstractmethod
    def _keep(self, x: Any, ids: Any, answers: list[Hashable]) -> None:
        """Store examples with ids and their predictions until their labels arrive."""

    def _scores(self, x: Any, ids: Any = None) -> tuple[Tensor, Answers, bool]:
        """Return the logits `[n, classes]`, the known labels, and whether x was a batch."""
        if ids is not None and self._settings.target.name != "class":
            raise InputError(
                f"predictions can have ids only with target='class', and this learner has "
                f"target={self._settings.target.name!r}: leave ids out"
            )
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
    """Decode logits `[n, outputs]` to predictions; None for each if no class is known."""
    if isinstance(answers, Labels) and not len(answers):
        return [None] * len(scores)
    return answers.decode(scores)
