"""Remove examples from the saved state of a live stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from recollect.learner import Learner
from recollect.learner.contents.remembered import Forgotten
from recollect.live.joined import PENDING, LateLabels
from recollect.live.state import StateFolder


def forgotten(
    learner: Learner, late: LateLabels | None, folder: StateFolder, ids: Sequence[str]
) -> Forgotten:
    """Remove these ids from a learner that was loaded from a folder, and save and release it.

    Earlier checkpoints are removed, as they contain the examples.
    """
    try:
        found, waited = learner.forget(ids), set()
        if late is not None:
            waited = late.joined.forget(ids)
            # If no example waits any more, there are no such tensors.
            rest = {name: note for name, note in learner.notes.items() if name != PENDING}
            learner.notes = rest | late.notes()
        folder.remove_all_but(learner.checkpoint())
    finally:
        learner.release_folder()
    unknown = [each for each in found.unknown if each not in waited]
    return replace(found, unknown=unknown, files=(), waiting=found.waiting + len(waited))
