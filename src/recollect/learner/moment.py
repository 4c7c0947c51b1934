"""What a learner is at one moment."""

from __future__ import annotations

from typing import NamedTuple

from recollect.learner.engine import Engine
from recollect.learner.labels import Labels
from recollect.learner.record import Record

__all__ = ["Moment"]


class Moment(NamedTuple):
    """A learner's networks and memory, labels and record; a step leads from one to the next.

    There is no engine until the first examples have arrived.
    """

    engine: Engine | None
    labels: Labels
    record: Record
