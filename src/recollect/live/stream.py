"""Predict, learn, write, and save now and then: a learner on a feed, which resumes exactly."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
import torch

from recollect.errors import DataError, InputError, RecollectError
from recollect.feeds import Feed, Record
from recollect.feeds.record import Position
from recollect.feeds.table import Moment
from recollect.learner import Learner
from recollect.live.answers import answer_of
from recollect.live.joined import LabelCounts
from recollect.live.late import LabelRow, late_labels, settings_of
from recollect.live.state import Predictions, Saving, StateFolder, output_of
from recollect.live.taken import Taken, line_of, not_a_class, predicted, say_columns, taken_of
from recollect.live.turns import Source, turns

__all__ = ["LiveStream"]


@final
class LiveStream:
    """Runs a learner on a feed: predicts every batch, then learns it; saves, and resumes exactly.

    `learner` is a `Learner`, or a function that makes one for an example `x`, of which the shape
    and the type count. `folder` has the state: the learner, how far each source was read, and how
    long the file of `predictions` was. It is saved every so many seconds (`every`) or steps
    (`every_steps`), and at the end. If there is a state already, `run` continues from it, unless
    `fresh`: on a CPU, the results are those of a stream that was never stopped, bit for bit. Only
    the same `batch`, format and `settings` continue it, which are plain data of your choice.

    `predictions` is a file, or an open binary stream, for a JSON line for every example; one
    without a label is predicted and not learned. A file that is there and that this state did not
    begin is overwritten with `force` alone. A feed that waits for more ends after `idle`
    seconds of silence. Messages, such as where it continues, go to `say`.

    `labels` is a second feed, of `recollect.feeds.open_labels`: labels by id. They are learned when
    both they and their examples have been read; at most `pending` examples wait for them.

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
        self.feed, self.stopped = feed, False
        self.learner: Learner | None = None
        self.count = self.new = self.learned = self._bad_before = 0
        self._make = learner
        self._folder = StateFolder(Path(folder))
        self._batch, self._idle, self._say = batch, idle, say
        self._fresh, self._force = fresh, force
        self._saving = Saving(every, every_steps)
        self._feeds = [feed] if labels is None else [feed, labels]
        self._output = output_of(predictions, self._feeds)
        self._late = late_labels(feed, labels, pending)
        found = {**(settings or {}), "batch": batch, "format": feed.kind}
        # As JSON has them, for they are compared with those in a file.
        self._settings = json.loads(json.dumps({**found, **settings_of(labels, pending)}))
        self._positions: dict[str, Position] = {}
        self._predictions: Predictions | None = None
        self._turn = self._skipped = 0
        self._columns: Moment | None = None
        self._whole = True
        if batch < 1:
            raise InputError(f"batch must be at least 1, not {batch}")

    @property
    def bad(self) -> int:
        """How many rows of this call were left out: not readable, or not to be trusted."""
        return self._left_out - self._bad_before

    @property
    def late(self) -> LabelCounts | None:
        """What became of the labels in a feed of their own, if there is one."""
        return None if self._late is None else self._late.counts

    @property
    def _left_out(self) -> int:
        unread = sum(feed.faults.count for feed in self._feeds)
        return unread + (self.learner.metrics().left_out if self.learner else 0)

    def stop(self) -> None:
        """Have `run` save and return after the batch at hand; for another thread, or a signal."""
        self.stopped = True
        for feed in self._feeds:
            feed.stop()

    def run(self, report: Callable[[LiveStream], None] = lambda live: None) -> Learner | None:
        """Learn until the feed ends, is silent for too long, or is stopped; the learner.

        That is the one that was given, or the one of the checkpoint from which it continued; None
        if nothing arrived. `report` is called with this object after every batch, and while it
        waits: see `count` (examples so far), `new` (those of this call), `learned` and `bad` (rows
        of it that were learned, and left out), and `learner` with its `metrics()`. What cannot be
        read or learned raises an error, and what was learned before is saved.
        """
        self.new = self.learned = 0
        try:
            if not self._fresh:
                self._resume()
            if self._predictions is None:
                self._folder.check_output(self._output, self._force)
            self._bad_before = self._left_out
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

    def _resume(self) -> None:
        saved = self._folder.saved(self._settings)
        if saved is None:
            return
        like = np.zeros(saved["shape"], np.uint8 if saved["image"] else np.float32)
        self.feed.continue_from(saved["layout"], None)  # by which a learner may be made
        learner = self._made(like).resumed(self._folder.path)
        if learner is None:
            raise DataError(f"the checkpoints in {self._folder.path} have gone: start again")
        self.learner = learner  # which has locked the folder
        if self._folder.saved(self._settings) != saved:
            raise DataError(f"the state in {self._folder.path} has just changed: start again")
        notes = learner.notes
        self.count, self._turn = notes["count"], notes.get("turn", 0)
        self._positions = {source: tuple(at) for source, at in notes["places"].items()}
        self.feed.continue_from(saved["layout"], notes.get("columns"))
        self._skipped = self.feed.faults.count = notes["skipped"]
        self._columns = self.feed.now()
        if self._late is not None:
            self._late.continue_from(notes)
        if str(self._output) not in notes["predictions"]:
            self._folder.check_output(self._output, self._force)
        self._predictions = self._folder.opened(self._output, notes["predictions"])
        self._say(f"continuing after {self.count:,} examples (fresh=True starts over)")
        say_columns(self.feed, self._say)

    def _made(self, x: np.ndarray) -> Learner:
        return self._make if isinstance(self._make, Learner) else self._make(x)

    def _learn_all(self, report: Callable[[LiveStream], None]) -> None:
        """Take batches of the feed, and of labels in turn, until they end or it is stopped."""
        requests: Source[Any] = Source(self.feed, self._positions, self._batch, self._request)
        sources = [requests]
        if self._late is not None:
            late, held = self._late, partial(self._labels_held, requests)
            sources.append(Source(late.feed, late.positions, self._batch, self._label, held))

        def enough() -> bool:
            report(self)
            silent = time.monotonic() - max(source.last for source in sources)
            nothing = self._predictions is None and requests.ended
            return self.stopped or nothing or (self._idle is not None and silent >= self._idle)

        for number, batch in turns(sources, self._turn, lambda: self.stopped, enough):
            if number == 0:
                self._take(batch)
            elif self._late is not None:
                self._late.learn(batch, self._observe)
            self._turn = (number + 1) % len(sources)
            self._whole = True
            self._saving.count()
            report(self)
            if self._saving.due():
                self._save()

    def _labels_held(self, requests: Source[Any]) -> bool:
        """Whether examples are to be read first: the first ones, or those that labels wait for."""
        assert self._late is not None
        more = not (requests.ended or requests.waits)
        return self._predictions is None or (self._late.joined.full and more)

    def _request(self, record: Record, before: int) -> Taken | None:
        """A record with its number, if it can be used, after so many others of its batch."""
        if self.learner is None:
            self.learner = self._made(record.x)
            say_columns(self.feed, self._say)
        joined = self._late is not None
        return taken_of(record, self.feed, self.learner, self.count + before + 1, joined=joined)

    def _label(self, record: Record, before: int) -> LabelRow | None:
        assert self.learner is not None
        assert self._late is not None
        return self._late.row(record, partial(not_a_class, self.learner))

    def _take(self, batch: list[Taken]) -> None:
        """Predict a batch, learn it, and write what was predicted."""
        assert self.learner is not None
        records = [taken.record for taken in batch]
        x = np.stack([record.x for record in records])
        # Without a file for them, nobody asks: the learner predicts what it is about to learn.
        asked = self._output is not None or self._late is not None
        guesses = predicted(self.learner, x) if asked else []
        own = [record.label for record in records]
        keys = [taken.key for taken in batch]
        early = self._late.joined.early(keys) if self._late else [None] * len(batch)
        labels = [late if label is None else label for label, late in zip(own, early, strict=True)]
        labelled = [number for number, label in enumerate(labels) if label is not None]
        if labelled:
            before = [guesses[n][0] for n in labelled] if guesses and self.learner.steps else None
            chosen, ids = ([each[number] for number in labelled] for each in (labels, keys))
            self._observe(x[labelled], chosen, before, ids)
        self._whole = False  # from here on, what is written must follow what was learned
        if self._late is not None:
            answers = [answer for answer, _ in guesses]
            self._late.joined.predicted(keys, torch.from_numpy(x), answers, own, early)
        predictions = self._predictions or self._begin(records[0])
        pairs = zip(batch, guesses, strict=False)  # without an output there are no guesses
        predictions.write([line_of(taken, self.feed, guess) for taken, guess in pairs])
        self.count, self.new = self.count + len(batch), self.new + len(batch)
        self._positions.update({record.source: record.position for record in records})
        self._skipped, self._columns = batch[-1].skipped, batch[-1].columns

    def _observe(
        self, x: Any, labels: list[Hashable], before: list[Hashable] | None, ids: Sequence[Hashable]
    ) -> None:
        assert self.learner is not None
        seen, steps = self.learner.seen, self.learner.steps
        target, named = self.learner.target, [*ids] if self.feed.has_id else None
        answers = [answer_of(label, target) for label in labels]
        try:
            self.learner.observe(x, answers, predicted=before, ids=named)
        except RecollectError:  # also if an earlier checkpoint failed, after the step
            self._whole = self.learner.steps == steps
            raise
        finally:
            self.learned += self.learner.seen - seen

    def _begin(self, first: Record) -> Predictions:
        """Make the folder and the files, now that a first batch could be learned."""
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
            "predictions": self._predictions.lengths,
        }
        self.learner.notes |= {"columns": self._columns.saved()} if self._columns else {}
        if self._late is not None:
            self.learner.notes |= {"turn": self._turn, **self._late.notes()}
        self.learner.checkpoint(wait=False)
        self._saving.done()

    def _finish(self) -> None:
        """Save what is not yet saved, unless the last batch was only half done."""
        if self._saving.unsaved and self._whole:
            self._save()
        if self.learner is not None:
            self.learner.flush()
