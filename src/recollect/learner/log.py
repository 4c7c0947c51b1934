"""Log messages of a learner, in the standard logger "recollect.learner"."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from recollect.errors import InputError
from recollect.learner.targets.labels import encoded

if TYPE_CHECKING:
    from recollect.learner.monitoring.drift import Alarm
    from recollect.learner.saving.snapshot import Snapshot
    from recollect.learner.targets.answers import Answers

logger = logging.getLogger("recollect.learner")

NAMED = 5


def tell_change(before: Snapshot, now: Snapshot, left_out: Mapping[int, str]) -> None:
    """Log the new classes, the examples left out (by row) and the drift alarms of a batch."""
    if left_out:
        first = before.watch.arrived
        _tell_left_out(left_out, now.watch.arrived - first, first)
    if len(now.labels.known) > len(before.labels.known):
        _tell_new_classes(before.labels, now.labels)
    if now.drift and before.drift and now.drift.alarms > before.drift.alarms:
        _tell_alarms(now.drift.last[before.drift.alarms - now.drift.alarms :])


def tell_grown(before: int, now: int) -> None:
    """Log that outputs were added to the network."""
    logger.info("the network was extended from %d to %d outputs", before, now)


def tell_unused_memory(title: str, memory: int | str) -> None:
    """Log that a method stores nothing in the memory that a learner was given."""
    logger.warning("memory=%r has no effect: %s stores no examples", memory, title)


def tell_changed_encoder() -> None:
    """Log that the code of an encoder is not that of the saved learner."""
    logger.warning(
        "the code or an attribute of the encoder has changed since the learner was saved: if it "
        "computes other features than before, the stored ones no longer match"
    )


def tell_undone(steps: int, why: str) -> None:
    """Log that a step failed and was undone."""
    logger.warning("step %d was undone: %s", steps + 1, why)


def _tell_new_classes(before: Answers, now: Answers) -> None:
    new = now.known[len(before) :]
    named = ", ".join(f"{label!r:.60}" for label in new[:NAMED])
    more = f" and {len(new) - NAMED} more" if len(new) > NAMED else ""
    logger.info("%d new class(es): %s%s; %d are known", len(new), named, more, len(now))
    try:
        encoded(new)
    except InputError as error:  # with a checkpoint folder, such a label is refused before
        logger.warning("this learner can learn and predict, but not be saved: %s", error)


def _tell_alarms(alarms: Sequence[Alarm]) -> None:
    for number, before, after in alarms:
        logger.warning(
            "drift alarm at example %d: the error rose from %.1f %% to %.1f %%",
            number, 100 * before, 100 * after,
        )  # fmt: skip


def _tell_left_out(reasons: Mapping[int, str], size: int, first: int) -> None:
    row = min(reasons)
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    logger.warning(
        "left out %d of %d examples: number %d%s: %s",
        len(reasons), size, first + row, more, reasons[row],
    )  # fmt: skip
