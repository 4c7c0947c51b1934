"""The step of a learner: from what arrived to the next state."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from recollect.learner import log
from recollect.learner.arriving import Arriving
from recollect.learner.engine import first_engine
from recollect.learner.examples import Kind
from recollect.learner.ids import Named
from recollect.learner.labels import encoded
from recollect.learner.late import Late
from recollect.learner.snapshot import Snapshot

__all__ = ["Learning"]


class Learning(Late):
    """A learner that takes steps; `Learner` says what can be observed."""

    def _learn(
        self, arrived: Arriving, predicted: Any, on_outlier: str, named: Named | None
    ) -> float:
        """Learn from what arrived; the loss. The thread has `_lock`."""
        before = self._now
        if before.engine:
            before.engine.kind.arriving.check(arrived.examples, arrived.packing)
        examples, labels, left_out, watch = arrived.sifted(before.watch, before.learned, on_outlier)
        if not labels:
            self._now = before._replace(watch=watch)
            log.tell_change(before, self._now, left_out)
            return math.nan
        batch = self._settings.encoded(examples.to(self._settings.device), arrived.packing)
        known = before.labels.with_new(labels, self._settings.max_classes)
        if self._checkpoints.folder and known is not before.labels:
            encoded(known.known[len(before.labels) :])
        kind = Kind.of(examples, packing=arrived.packing)
        kind = Kind.of(batch, kind) if self._settings.encoder else kind
        engine = before.engine or first_engine(
            self._module, self._settings, kind, known, numbered=named is not None
        )
        engine.kind.check(batch, kind.packing)
        with engine.threads(len(labels)):
            if predicted is None:
                guessed = before.guesses(batch)
            else:
                guessed = np.array(known.numbers(arrived.predictions(predicted, left_out)))
            if len(known) > engine.outputs:
                engine = engine.grown(len(known) + self._settings.spare)
            engine = engine.numbering() if named else engine
            numbers = np.array(known.numbers(labels), dtype=np.int64)
            engine.begin()
            try:
                loss = engine.step(batch, torch.from_numpy(numbers).to(batch.device))
                record = before.record.after(numbers, guessed)
                names = before.names.after(engine.fleet, len(labels), named, left_out)
                engine.publish(known)
                drift = before.drift_after(numbers, guessed)
                self._now = Snapshot(engine, known, record, watch, drift, before.labelled, names)
            finally:
                if self._now is before:
                    engine.undo()
        log.tell_change(before, self._now, left_out)
        return loss
