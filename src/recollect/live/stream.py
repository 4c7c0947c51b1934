"""Run a learner on a feed: predict, learn, write predictions, save, and resume exactly."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
import torch

from recollect.errors import InputError, RecollectError
from recollect.feeds import Feed, Record
from recollect.feeds.record import Position
from recollect.feeds.table import TableState
from recollect.learner import Learner
from recollect.learner.contents.remembered import Forgotten
from recollect.live import rows
from recollect.live.batches import Source, batches_in_turn
from recollect.live.forgetting import forgotten
from recollect.live.joined import LabelCounts, late_labels, settings_of
from recollect.live.state import Predictions, Saving, StateFolder, output_of


@final
class LiveStream:
    """Run a learner on a feed: predict every batch, then learn it; save, and resume exactly.

    `learner` is a `Learner`, or a function that creates one for an example `x`, given for its shape
    and dtype. The state is saved in `folder`: the learner, the position in each source, and the
    length of the `predictions` file. It is saved every `every` seconds or every `every_steps`
    steps, and at the end. If `folder` has a state, `run` resumes from it unless `fresh`; on a CPU,
    the results are bit for bit those of a stream that was never stopped. To resume, `batch`, the
    format and `settings` (any plain data) must be the same as before.

    `predictions` is a file or an open binary stream; a JSON line is written for every example.
    Examples without a label are predicted but not learned. An existing file that this stream did
    not create is only overwritten with `force`. A feed that waits for more data ends after `idle`
    seconds without any. `say` is called with messages, such as where the stream resumes.

    `labels` is a second feed of ids and labels, from `recollect.feeds.open_labels`. A label is
    learned once it and its example have been read; at most `pending` examples wait for labels.

    >>> from tempfile import TemporaryDirectory
    >>> from recollect import ER, MLP
    >>> from recollect.feeds import open_feed
    >>> with TemporaryDirectory() as here:
    ...     rows, state = Path(here) / "rows.csv", Path(here) / "state"
    ...     for count in (20, 30):  # the file grows, and the stream goes on
    ...         _ = rows.write_text("".join(f"{n % 2},{n % 2}\\n" for n in range(count)))
    ...         live = LiveStream(lambda x: Learner(MLP(x.size, 1), ER()), open_feed(rows), state)
    ...         learner = live.run()
    ...         print(live.count, learner.seen)
    20 20
    30 30
    """

    def __init__(
        self,
        learner: Learner | Callable[[np.ndarray], Learner],
        feed: Feed,
        folder: str | Path,
        *,
        batch: int = 10,
        predictions: str | Path | BinaryIO | None = None,
        every: float | None = 30.0,
        every_steps: int | None = None,
        idle: float | None = None,
        fresh: bool = False,
        force: bool = False,
        settings: Mapping[str, Any] | None = None,
        say: Callable[[str], None] = lambda text: None,
        labels: Feed | None = None,
        pending: int = 10_000,
    ) -> None:
        self.feed, self.stopped, self._whole = feed, False, True
        self.learner: Learner | None = None
        self.outlier: str | None = None  # the last row left out as an outlier, and why
        self.count = self.new = self.learned = self._bad_before = 0
        self._make = (lambda x: learner) if isinstance(learner, Learner) else learner
        self._folder = StateFolder(Path(folder))
        self._batch, self._idle, self._say = batch, idle, say
        self._fresh, self._force = fresh, force
        self._saving = Saving(every, every_steps)
        self._feeds = [feed] if labels is None else [feed, labels]
        self._output = output_of(predictions, self._feeds)
        self._late = late_labels(feed, labels, pending)
        found = {**(settings or {}), "batch": batch, "format": feed.kind}
        # Through JSON, because they are compared with those in a file.
        self._settings = json.loads(json.dumps({**found, **settings_of(labels, pending)}))
        self._positions: dict[str, Position] = {}
        self._predictions: Predictions | None = None
        self._turn = self._skipped = 0
        self._columns: TableState | None = None
        if batch < 1:
            raise InputError(f"batch must be at least 1, not {batch}")

    @property
    def bad(self) -> int:
        """The number of rows that this call left out, as unreadable or as outliers."""
        return max(self._left_out - self._bad_before, 0)

    @property
    def late(self) -> LabelCounts | None:
        """The counts of labels in the `labels` feed; None without one."""
        return None if self._late is None else self._late.joined.counts

    @property
    def _left_out(self) -> int:
        unread = sum(feed.faults.count for feed in self._feeds)
        return unread + (self.learner.metrics().left_out if self.learner else 0)

    def stop(self) -> None:
        """Make `run` save and return after the current batch; for other threads and signals."""
        self.stopped = True
        for feed in self._feeds:
            feed.stop()

    def run(self, report: Callable[[LiveStream], None] = lambda live: None) -> Learner | None:
        """Learn until the feed ends, is idle for too long, or is stopped; return the learner.

        This is the given learner, or the one of the checkpoint from which the stream resumed; None
        if no example arrived. `report` is called with this object after every batch, and while it
        waits: see `count` (examples so far), `new` (examples of this call), `learned` and `bad`
        (rows of this call that were learned or left out), and `learner` with its `metrics()`. If a
        row cannot be read or learned, the state before it is saved and the error is raised.
        """
        self.new = self.learned = 0
        try:
            self._resume()
            if self._predictions is None:
                self._folder.check_output(self._output, self._force)
            self._saving.done()
            self._learn_all(report)
            self._finish()
        except RecollectError:
            self._finish()
            raise
        finally:
            if self._predictions is not None:
                self._predictions.close()
            self._predictions = None
            if self.learner is not None:
                self.learner.release_folder()
        return self.learner if self.count else None

    def forget(self, ids: Sequence[str]) -> Forgotten:
        """Remove the examples with these ids from the saved state, and its earlier checkpoints.

        They may be in memory or wait for a label. The sources and predictions are unchanged.
        """
        if self._fresh or (learner := self._load()) is None:
            raise InputError(f"there is no saved state in {self._folder.path} to forget from")
        return forgotten(learner, self._late, self._folder, ids)

    def _load(self) -> Learner | None:
        """Load the saved state, if there is one."""
        learner = self._folder.resumed(self._settings, self.feed, self._make)
        if learner is None:
            return None
        self.learner, notes = learner, learner.notes  # the folder is locked from here on
        self.count, self._turn = notes["count"], notes.get("turn", 0)
        self._positions = {source: tuple(at) for source, at in notes["places"].items()}
        self.feed.continue_from(self.feed.reader.layout, notes.get("columns"))
        self._skipped = self.feed.faults.count = notes["skipped"]
        self._columns = self.feed.now()
        if self._late is not None:
            self._late.continue_from(notes)
        self._bad_before = notes.get("bad", self._left_out)
        return learner

    def _resume(self) -> None:
        if self._fresh or (learner := self._load()) is None:
            return
        lengths = learner.notes["predictions"]
        if str(self._output) not in lengths:
            self._folder.check_output(self._output, self._force)
        self._predictions = self._folder.opened(self._output, lengths)
        self._say(f"continuing after {self.count:,} examples (fresh=True starts over)")
        self._say_columns()

    def _say_columns(self) -> None:
        if columns := self.feed.described():
            self._say(columns)

    def _learn_all(self, report: Callable[[LiveStream], None]) -> None:
        """Learn batches of examples and of labels in turn until they end or it is stopped."""
        requests = Source(self.feed, self._positions, self._batch, self._request)
        sources = [requests]
        if (late := self._late) is not None:
            sources.append(late.source(self._batch, requests, self._begun))

        def enough() -> bool:
            report(self)
            silent = time.monotonic() - max(source.last for source in sources)
            nothing = self._predictions is None and requests.ended
            return self.stopped or nothing or (self._idle is not None and silent >= self._idle)

        for number, batch in batches_in_turn(sources, self._turn, lambda: self.stopped, enough):
            if number == 0:
                self._take(batch)
            elif late is not None:
                late.learn(batch, self._observe)
            self._turn = (number + 1) % len(sources)
            self._whole = True
            self._saving.count()
            report(self)
            if self._saving.due():
                self._save()

    def _begun(self) -> Learner | None:
        return self.learner if self._predictions else None

    def _request(self, record: Record, before: int) -> rows.StreamRow | None:
        """Check a record and number it; `before` is the number of records in its batch so far."""
        if self.learner is None:
            self.learner = self._make(record.x)
            self._say_columns()
        number, joined = self.count + before + 1, self._late is not None
        return rows.checked_row(record, self.feed, self.learner, number, joined=joined)

    def _take(self, batch: list[rows.StreamRow]) -> None:
        """Predict a batch, learn it, and write the predictions."""
        assert self.learner is not None
        records = [row.record for row in batch]
        x = np.stack([record.x for record in records])
        # Otherwise the learner itself predicts the rows that it is about to learn.
        asked = self._output is not None or self._late is not None
        guesses = rows.predict(self.learner, x) if asked else []
        own, keys = [record.label for record in records], [row.key for row in batch]
        early = self._late.joined.early(keys) if self._late else [None] * len(batch)
        labels = [late if label is None else label for label, late in zip(own, early, strict=True)]
        labelled = [number for number, label in enumerate(labels) if label is not None]
        if labelled:
            before = rows.predicted_before(self.learner, [guesses[n] for n in labelled if guesses])
            some, chosen = [records[n] for n in labelled], [labels[n] for n in labelled]
            with rows.located(self.feed, some):
                self._observe(x[labelled], chosen, before, [keys[n] for n in labelled])
            self.outlier = rows.last_outlier(self.learner, self.feed, some) or self.outlier
        self._whole = False  # learned, but not yet written: not to be saved until it is
        if self._late is not None:
            answers = [answer for answer, _ in guesses]
            self._late.joined.predicted(keys, torch.from_numpy(x), answers, own, early)
        predictions = self._predictions or self._begin(records[0])
        pairs = zip(batch, guesses, strict=False)  # without an output, there are no predictions
        line = partial(rows.prediction_line, feed=self.feed, target=self.learner.target)
        predictions.write([line(row, prediction=guess) for row, guess in pairs])
        self.count, self.new = self.count + len(batch), self.new + len(batch)
        self._positions.update({record.source: record.position for record in records})
        self._skipped, self._columns = batch[-1].skipped, batch[-1].columns

    def _observe(
        self, x: Any, labels: list[Hashable], before: list[Hashable] | None, ids: Sequence[Hashable]
    ) -> None:
        assert self.learner is not None
        seen, steps = self.learner.seen, self.learner.steps
        target, named = self.learner.target, [*ids] if self.feed.has_id else None
        answers = [rows.target_value(label, target) for label in labels]
        try:
            self.learner.observe(x, answers, predicted=before, ids=named)
        except RecollectError:  # after the step, if it reports that an earlier checkpoint failed
            self._whole = self.learner.steps == steps
            raise
        finally:
            self.learned += self.learner.seen - seen

    def _begin(self, first: Record) -> Predictions:
        """Create the folder and the files, once the first batch was learned."""
        assert self.learner is not None
        self.learner.use_folder(self._folder.path)
        self._folder.begin(self._settings, self.feed.reader.layout, first.x)
        self._fresh, self._predictions = False, self._folder.opened(self._output)
        return self._predictions

    def _save(self) -> None:
        assert self.learner is not None
        assert self._predictions is not None
        self._predictions.sync()
        self.learner.notes = {
            "count": self.count,
            "places": self._positions,
            "skipped": self._skipped,
            "bad": self._left_out,  # with unreadable rows at the end, which are read again
            "predictions": self._predictions.lengths,
        }
        self.learner.notes |= {"columns": self._columns.saved()} if self._columns else {}
        if self._late is not None:
            self.learner.notes |= {"turn": self._turn, **self._late.notes()}
        self.learner.checkpoint(wait=False)
        self._saving.done()

    def _finish(self) -> None:
        """Save the state unless it is saved, or the last batch is incomplete."""
        if self._whole and (self._saving.unsaved or (self._predictions and self.bad)):
            self._save()
        if self.learner is not None:
            self.learner.flush()
