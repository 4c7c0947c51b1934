"""What a learner tells its operator through the standard `logging`, as "recollect.learner"."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recollect.learner.drift import Alarm
    from recollect.learner.labels import Labels
    from recollect.learner.snapshot import Snapshot

__all__ = ["logger", "tell_change", "tell_grown", "tell_undone"]

logger = logging.getLogger("recollect.learner")

NAMED = 5


def tell_change(before: Snapshot, now: Snapshot, left_out: Mapping[int, str]) -> None:
    """What a batch brought: new classes, and examples left out, by row, drift alarms."""
    if left_out:
        first = before.watch.arrived
        _tell_left_out(left_out, now.watch.arrived - first, first)
    if now.labels is not before.labels:
        _tell_new_classes(before.labels, now.labels)
    if now.drift and before.drift and now.drift.alarms > before.drift.alarms:
        _tell_alarms(now.drift.last[before.drift.alarms - now.drift.alarms :])


def tell_grown(before: int, now: int) -> None:
    """The network got more outputs."""
    logger.info("the network has %d outputs now, for %d before", now, before)


def tell_undone(steps: int, why: str) -> None:
    """A step went wrong and was taken back."""
    logger.warning("step %d was taken back: %s", steps + 1, why)


def _tell_new_classes(before: Labels, now: Labels) -> None:
    new = now.known[len(before) :]
    named = ", ".join(f"{label!r:.60}" for label in new[:NAMED])
    more = f" and {len(new) - NAMED} more" if len(new) > NAMED else ""
    logger.info("%d new class(es): %s%s; %d are known", len(new), named, more, len(now))


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
