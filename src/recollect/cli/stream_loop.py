"""Predict, learn, write, and save now and then: the loop of `recollect stream`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np

from recollect.cli.common import notice
from recollect.cli.stream_output import Predictions
from recollect.cli.stream_plan import Plan
from recollect.cli.stream_screen import Screen
from recollect.cli.stream_state import StateFolder
from recollect.cli.stream_stop import Stop
from recollect.errors import DataError, InputError, RecollectError
from recollect.feeds import Feed, Record
from recollect.feeds.record import Malformed, Place
from recollect.learner import Learner

__all__ = ["Loop"]

SILENCE = 0.5


@final
class Loop:
    """Takes records in batches: each is predicted first, then learned if it has a label.

    The learner is made when the first batch is there. How far the sources were read, and how long
    the file of predictions is, are saved in one file with it, between two batches.
    """

    def __init__(
        self, plan: Plan, feed: Feed, folder: StateFolder, stop: Stop, screen: Screen
    ) -> None:
        self.learner: Learner | None = None
        self._plan, self._feed, self._folder = plan, feed, folder
        self._stop, self._screen = stop, screen
        self._classes = {*(plan.classes(feed.kind) or ())}
        self._places: dict[str, Place] = {}
        self._count = 0
        self._predictions: Predictions | None = None
        self._whole, self._unsaved, self._saved_at = True, 0, time.monotonic()

    def resume(self, saved: Mapping[str, Any]) -> None:
        """Continue from the newest checkpoint."""
        plan, folder = self._plan, self._folder.path
        net = plan.network(saved["shape"], saved["image"])
        self.learner = Learner.resume(folder, net, device=plan.device)
        if self.learner is None:
            raise DataError(f"the checkpoints in {folder} have gone: start again")
        notes = self.learner.notes
        self._count = notes["count"]
        self._places = {source: tuple(place) for source, place in notes["places"].items()}
        self._feed.faults.count = notes["skipped"]
        self._predictions = Predictions(plan.predictions, notes["predictions"])
        notice(f"continuing after {self._count:,} examples (--fresh starts over)")

    def run(self) -> None:
        """Learn until the stream ends, falls silent for too long, or is to stop."""
        try:
            for batch in self._batches():
                self._take(batch)
                self._screen.show(self.learner, len(batch))
                if self._due():
                    self._save()
            self._finish()
        except RecollectError:
            self._finish()
            raise
        finally:
            if self._predictions is not None:
                self._predictions.close()

    def _batches(self) -> Iterator[list[Record]]:
        """Full batches; a smaller one when nothing comes for a moment, and at the end."""
        batch: list[Record] = []
        last = time.monotonic()
        idle: float | None = self._plan.chosen.idle
        for record in self._feed.records(self._places):
            if record is None:
                silent = time.monotonic() - last
                if batch and silent >= SILENCE:
                    yield batch
                    batch = []
                self._screen.show(self.learner, 0)
                if self._stop.asked or (idle is not None and silent >= idle):
                    break
                continue
            last = time.monotonic()
            if self._known(record):
                batch.append(record)
            if len(batch) == self._plan.batch:
                yield batch
                batch = []
                # What was taken from a pipe would be lost; from a file it is read again.
                if self._stop.asked and self._feed.lasting:
                    return
        if batch and not (self._stop.asked and self._feed.lasting):
            yield batch

    def _known(self, record: Record) -> bool:
        """Whether its label is among the classes, if those are fixed."""
        if not self._classes or record.label is None or record.label in self._classes:
            return True
        why = Malformed(f"the label {record.label!r} is not among --classes")
        self._feed.faults.meet(self._feed.where(record), why)
        return False

    def _take(self, batch: list[Record]) -> None:
        """Predict a batch, learn it, and write what was predicted."""
        plan, feed = self._plan, self._feed
        learner = self.learner or plan.learner(batch[0], feed.kind, self._folder.path)
        x = np.stack([record.x for record in batch])
        # Without a file for them, nobody asks: the learner counts its own.
        predicted = self._predicted(learner, x) if plan.predictions else []
        labelled = [number for number, record in enumerate(batch) if record.label is not None]
        if labelled:
            _observe(learner, x[labelled], [batch[number].label for number in labelled])
        self._whole = False  # from here on, what is written must follow what was learned
        output = self._predictions or self._begin(learner, batch[0])
        pairs = enumerate(zip(batch, predicted, strict=False), self._count + 1)
        output.write([{"n": n, "label": record.label, **guess} for n, (record, guess) in pairs])
        self._count += len(batch)
        self._places.update({record.source: record.place for record in batch})
        self._whole = True
        self._unsaved += 1

    def _predicted(self, learner: Learner, x: np.ndarray) -> list[dict[str, Any]]:
        if not learner.steps:
            return [{"predicted": None, "probability": None}] * len(x)
        shares, classes = learner.predict_proba(x), learner.classes
        best = shares.argmax(1)
        return [
            {"predicted": classes[place], "probability": round(float(row[place]), 6)}
            for row, place in zip(shares, best, strict=True)
        ]

    def _begin(self, learner: Learner, first: Record) -> Predictions:
        """Make the folder and the files, now that a first batch could be learned."""
        self._folder.begin(
            {
                "settings": self._plan.settings,
                "layout": self._feed.reader.layout,
                "shape": [*first.x.shape],
                "image": first.x.dtype == np.uint8,
            }
        )
        self.learner, self._predictions = learner, Predictions(self._plan.predictions)
        return self._predictions

    def _due(self) -> bool:
        seconds, steps = self._plan.chosen.every
        if steps is not None:
            return bool(self._unsaved >= steps)
        return bool(time.monotonic() - self._saved_at >= seconds)

    def _save(self) -> None:
        assert self.learner is not None
        assert self._predictions is not None
        self._predictions.settle()
        self.learner.notes = {
            "count": self._count,
            "places": self._places,
            "skipped": self._feed.faults.count,
            "predictions": self._predictions.lengths,
        }
        self.learner.checkpoint()
        self._unsaved, self._saved_at = 0, time.monotonic()

    def _finish(self) -> None:
        """Save what is not yet saved, unless the last batch was only half done."""
        if self._unsaved and self._whole:
            self._save()


def _observe(learner: Learner, x: np.ndarray, labels: list[Any]) -> None:
    """Learn a batch; what is refused is told in the words of the command line."""
    try:
        learner.observe(x, labels)
    except InputError as error:
        raise InputError(str(error).replace("classes=[...]", "--classes A B C")) from None
