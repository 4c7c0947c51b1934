"""Predict, learn, write, and save now and then: a learner on a feed, which resumes exactly."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np

from recollect.errors import DataError, InputError, RecollectError
from recollect.feeds import Feed, Record
from recollect.feeds.record import Malformed, Position
from recollect.files import check_new
from recollect.learner import Learner
from recollect.learner.labels import as_number, no_class
from recollect.live.answers import answer_of, why_not
from recollect.live.state import Predictions, StateFolder
from recollect.live.taken import Taken, line_of, output_of, predicted

__all__ = ["LiveStream"]

SILENCE = 0.5


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
    ) -> None:
        self.feed, self.stopped = feed, False
        self.learner: Learner | None = None
        self.count = self.new = self.learned = self._bad_before = 0
        self._make = learner
        self._folder = StateFolder(Path(folder))
        self._batch, self._idle, self._say = batch, idle, say
        self._fresh, self._force = fresh, force
        self._every, self._every_steps = every, every_steps
        self._output = output_of(predictions, feed)
        # As JSON has them, for they are compared with those in a file.
        plain = json.dumps({**(settings or {}), "batch": batch, "format": feed.kind})
        self._settings: dict[str, Any] = json.loads(plain)
        self._classes: frozenset[Hashable] | None = None
        self._positions: dict[str, Position] = {}
        self._predictions: Predictions | None = None
        self._last: Taken | None = None
        self._whole, self._unsaved, self._saved_at = True, 0, 0.0
        if batch < 1:
            raise InputError(f"batch must be at least 1, not {batch}")

    @property
    def bad(self) -> int:
        """How many rows of this call were left out: not readable, or not to be trusted."""
        return self._left_out - self._bad_before

    @property
    def _left_out(self) -> int:
        return self.feed.faults.count + (self.learner.metrics().left_out if self.learner else 0)

    def stop(self) -> None:
        """Have `run` save and return after the batch at hand; for another thread, or a signal."""
        self.stopped = True
        self.feed.stop()

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
                self._check_output()
            self._bad_before = self._left_out
            self._saved_at = time.monotonic()
            for batch in self._batches(report):
                self._take(batch)
                report(self)
                if self._due():
                    self._save()
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
        self._use(learner)  # which has locked the folder
        if self._folder.saved(self._settings) != saved:
            raise DataError(f"the state in {self._folder.path} has just changed: start again")
        notes = learner.notes
        self.count = notes["count"]
        self._positions = {source: tuple(at) for source, at in notes["places"].items()}
        self.feed.continue_from(saved["layout"], notes.get("columns"))
        self.feed.faults.count = notes["skipped"]
        if str(self._output) not in notes["predictions"]:
            self._check_output()
        self._predictions = self._opened(notes["predictions"])
        self._say(f"continuing after {self.count:,} examples (fresh=True starts over)")
        self._describe()

    def _check_output(self) -> None:
        """Refuse to overwrite a file that this state did not begin."""
        if isinstance(self._output, Path) and not self._folder.wrote(self._output):
            check_new(self._output, self._force)

    def _opened(self, lengths: Mapping[str, int] | None = None) -> Predictions:
        if isinstance(self._output, Path):
            self._folder.note_written(self._output)
        return Predictions(self._output, lengths)

    def _describe(self) -> None:
        columns = self.feed.described()
        if columns is not None:
            self._say(columns)

    def _made(self, x: np.ndarray) -> Learner:
        return self._make if isinstance(self._make, Learner) else self._make(x)

    def _use(self, learner: Learner) -> None:
        self.learner = learner
        self._classes = frozenset(learner.classes) if learner.fixed_classes else None

    def _batches(self, report: Callable[[LiveStream], None]) -> Iterator[list[Taken]]:
        """Full batches; a smaller one when nothing comes for a moment, and at the end."""
        batch: list[Taken] = []
        last = time.monotonic()
        for record in self.feed.records(self._positions):
            if record is None:
                silent = time.monotonic() - last
                if batch and silent >= SILENCE:
                    yield batch
                    batch = []
                report(self)
                if self.stopped or (self._idle is not None and silent >= self._idle):
                    break
                continue
            last = time.monotonic()
            if self._has_output_for(record):
                skipped = self.feed.faults.count
                n = self.count + len(batch) + skipped + 1
                batch.append(Taken(record, n, skipped, self.feed.now()))
            if len(batch) == self._batch:
                yield batch
                batch = []
                # What was taken from a pipe would be lost; from a file it is read again.
                if self.stopped and self.feed.lasting:
                    return
        if batch and not (self.stopped and self.feed.lasting):
            yield batch

    def _has_output_for(self, record: Record) -> bool:
        if self.learner is None:
            self._use(self._made(record.x))
            self._describe()
        why = self._not_a_class(record.label)
        if why is not None:
            self.feed.faults.meet(self.feed.where(record), Malformed(why))
        return why is None

    def _not_a_class(self, label: Hashable) -> str | None:
        assert self.learner is not None
        if label is None or self.learner.knows(label):
            return None
        if self.learner.target != "class":
            return why_not(label, self.learner)
        if self._classes is not None:
            return f"the label {label!r} is not among the classes"
        return no_class(as_number(label) if self.feed.kind == "csv" else label)

    def _take(self, batch: list[Taken]) -> None:
        """Predict a batch, learn it, and write what was predicted."""
        assert self.learner is not None
        records = [taken.record for taken in batch]
        x = np.stack([record.x for record in records])
        # Without a file for them, nobody asks: the learner predicts what it is about to learn.
        guesses = [] if self._output is None else predicted(self.learner, x)
        labelled = [number for number, record in enumerate(records) if record.label is not None]
        if labelled:
            labels = [answer_of(records[n].label, self.learner.target) for n in labelled]
            before = [guesses[n][0] for n in labelled] if guesses and self.learner.steps else None
            seen, steps = self.learner.seen, self.learner.steps
            try:
                self.learner.observe(x[labelled], labels, predicted=before)
            except RecollectError:  # also if an earlier checkpoint failed, after the step
                self._whole = self.learner.steps == steps
                raise
            finally:
                self.learned += self.learner.seen - seen
        self._whole = False  # from here on, what is written must follow what was learned
        predictions = self._predictions or self._begin(records[0])
        pairs = zip(batch, guesses, strict=False)  # without an output there are no guesses
        has_id = self.feed.has_id
        predictions.write([line_of(taken, self.feed, guess, has_id) for taken, guess in pairs])
        self.count, self.new = self.count + len(batch), self.new + len(batch)
        self._positions.update({record.source: record.position for record in records})
        self._last = batch[-1]
        self._whole, self._unsaved = True, self._unsaved + 1

    def _begin(self, first: Record) -> Predictions:
        """Make the folder and the files, now that a first batch could be learned."""
        layout, image = self.feed.reader.layout, first.x.dtype == np.uint8
        facts = {"layout": layout, "shape": [*first.x.shape], "image": image}
        assert self.learner is not None
        self.learner.use_folder(self._folder.path)
        self._folder.begin({"settings": self._settings, **facts})
        self._fresh, self._predictions = False, self._opened()
        return self._predictions

    def _due(self) -> bool:
        if self._every_steps is not None:
            return self._unsaved >= self._every_steps
        return self._every is not None and time.monotonic() - self._saved_at >= self._every

    def _save(self) -> None:
        assert self.learner is not None
        assert self._predictions is not None
        assert self._last is not None
        self._predictions.sync()
        self.learner.notes = {
            "count": self.count,
            "places": self._positions,
            "skipped": self._last.skipped,
            "predictions": self._predictions.lengths,
        }
        if self._last.columns is not None:
            self.learner.notes["columns"] = self._last.columns.saved()
        self.learner.checkpoint(wait=False)
        self._unsaved, self._saved_at = 0, time.monotonic()

    def _finish(self) -> None:
        """Save what is not yet saved, unless the last batch was only half done."""
        if self._unsaved and self._whole:
            self._save()
        if self.learner is not None:
            self.learner.flush()
