"""Learn labels from a separate feed, matched by id, before or after their examples arrive."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, final

import torch

from recollect.errors import InputError
from recollect.feeds import Feed, Record
from recollect.feeds.record import Position
from recollect.live.batches import Source
from recollect.live.joined import Joined
from recollect.live.rows import StreamRow

__all__ = ["LateLabels", "late_labels", "settings_of"]

PENDING = "pending.x"


@final
class LateLabels:
    """A feed of labels, its positions, and the examples and labels that wait for each other."""

    def __init__(self, feed: Feed, most: int) -> None:
        self.feed, self.joined = feed, Joined(most)
        self.positions: dict[str, Position] = {}
        self._skipped = 0

    def source(
        self,
        size: int,
        take: Callable[[Record, int], StreamRow | None],
        held: Callable[[], bool],
    ) -> Source:
        """Return the batches of labels; raise `InputError` at once if a column does not exist."""
        found = Source(self.feed, self.positions, size, take, held)
        try:
            found.begin()
        except InputError as error:
            raise InputError(f"the labels in {', '.join(self.feed.sources)}: {error}") from None
        return found

    def learn(
        self,
        batch: Sequence[StreamRow],
        observe: Callable[[Any, list[Hashable], list[Hashable] | None, Sequence[Hashable]], None],
    ) -> None:
        """Learn the labels of waiting examples in one step; metrics use their first predictions."""
        matched = self.joined.look_up([(str(row.key), row.record.label) for row in batch])
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
