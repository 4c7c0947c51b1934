"""Learn labels from a separate feed, matched by id, before or after their examples arrive."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, final

import torch

from recollect.errors import InputError
from recollect.feeds import Feed, Record
from recollect.feeds.feed import labels_of
from recollect.feeds.record import Malformed, Position
from recollect.live.batches import Source
from recollect.live.joined import Joined

__all__ = ["LabelRow", "LateLabels", "late_labels", "settings_of"]

PENDING = "pending.x"


class LabelRow(NamedTuple):
    """A record with a label, its id as text, and the number of bad rows before it."""

    record: Record
    key: str
    skipped: int


@final
class LateLabels:
    """A feed of labels, its positions, and the examples and labels that wait for each other."""

    def __init__(self, feed: Feed, most: int) -> None:
        self.feed, self.joined = feed, Joined(most)
        self.positions: dict[str, Position] = {}
        self._skipped = 0

    def row(self, record: Record, wrong: Callable[[Hashable, str], str | None]) -> LabelRow | None:
        """Check a record with a label; None, and a fault, if it has no id or no valid label.

        `wrong` returns why a label is not valid, or None.
        """
        try:
            key, label = labels_of(record)
            why = wrong(label, self.feed.kind)
            if why is not None:
                raise Malformed(why)
        except Malformed as error:
            self.feed.faults.meet(self.feed.where(record), error)
            return None
        return LabelRow(record, key, self.feed.faults.count)

    def source(
        self,
        size: int,
        take: Callable[[Record, int], LabelRow | None],
        held: Callable[[], bool],
    ) -> Source[LabelRow]:
        """Return the batches of labels; raise `InputError` at once if a column does not exist."""
        found = Source(self.feed, self.positions, size, take, held)
        try:
            found.begin()
        except InputError as error:
            raise InputError(f"the labels in {', '.join(self.feed.sources)}: {error}") from None
        return found

    def learn(
        self,
        batch: Sequence[LabelRow],
        observe: Callable[[Any, list[Hashable], list[Hashable] | None, Sequence[Hashable]], None],
    ) -> None:
        """Learn the labels of waiting examples in one step; metrics use their first predictions."""
        matched = self.joined.look_up([(row.key, row.record.label) for row in batch])
        found = matched.batch
        if found is not None:
            observe(found.x, found.labels, found.answers, found.ids)
        self.joined.settle(matched)
        self.positions.update({row.record.source: row.record.position for row in batch})
        self._skipped = batch[-1].skipped

    def notes(self) -> dict[str, Any]:
        """Return the state for the notes of a checkpoint."""
        facts, tensors = self.joined.state()
        noted = {
            "places": dict(self.positions),
            "skipped": self._skipped,
            "layout": self.feed.reader.layout,
            **facts,
        }
        # Examples are tensors, which a checkpoint stores separately from plain data.
        return {"labels": noted, **({PENDING: tensors["x"]} if tensors else {})}

    def continue_from(self, notes: Mapping[str, Any]) -> None:
        """Restore the state that `notes` returned."""
        noted = notes["labels"]
        x: torch.Tensor | None = notes.get(PENDING)
        self.joined = Joined.restored(noted, {} if x is None else {"x": x})
        self.positions = {source: tuple(at) for source, at in noted["places"].items()}
        self.feed.continue_from(noted["layout"], None)
        self._skipped = self.feed.faults.count = noted["skipped"]


def settings_of(labels: Feed | None, most: int) -> dict[str, Any]:
    """Return the settings that a resumed stream must share; None without labels.

    States that were saved before label feeds existed have None too.
    """
    if labels is None:
        return {"labels": None, "labels_format": None, "pending": None}
    return {"labels": True, "labels_format": labels.kind, "pending": most}


def late_labels(feed: Feed, labels: Feed | None, most: int) -> LateLabels | None:
    """Create the label feed of a stream, if any; raise `InputError` if ids cannot be matched."""
    if labels is None:
        return None
    if not feed.has_id:
        raise InputError("labels are matched by id: open the examples with Reading(id='...')")
    if not labels.of_labels:
        raise InputError("labels must be a feed of ids and labels: open it with open_labels")
    if not (feed.lasting or labels.lasting):
        raise InputError(
            "examples and labels cannot both be read from standard input: give a file for one"
        )
    if most < 1:
        raise InputError(f"pending must be at least 1, not {most}")
    return LateLabels(labels, most)
