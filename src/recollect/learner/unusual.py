"""Labels whose examples are far outside of the others, again and again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple, final

from recollect.learner.columns import FACTOR

__all__ = ["Seen", "Unusual"]

ENOUGH, LABELS = 5, 100


class Seen(NamedTuple):
    """How many examples of a label were far outside, and accepted, since it had learned `start`."""

    start: int
    far: int
    accepted: int
    sizes: tuple[float, ...]


@final
@dataclass(frozen=True)
class Unusual:
    """The labels of examples that were far outside; those of glitches are any, and change.

    If at least half of the latest examples of a label are far outside, the fifth of them is
    accepted, and all that follow it and have about its magnitude.
    """

    labels: Mapping[Hashable, Seen] = field(default_factory=dict)

    def after(
        self, far: Iterable[tuple[Hashable, float]], learned: Callable[[Hashable], int]
    ) -> tuple[Unusual, list[bool]]:
        """After examples (label, magnitude) that are far outside, and whether to accept each."""
        labels, accepted = dict(self.labels), []
        for label, size in far:
            count = learned(label)
            seen = labels.pop(label, None)
            if seen is None or count - seen.start - seen.accepted > seen.far:
                seen = Seen(count, 0, 0, ())
            sizes = (*seen.sizes, size)[-ENOUGH:]
            good = seen.far + 1 >= ENOUGH and size <= FACTOR * median(sizes)
            accepted.append(good)
            labels[label] = Seen(seen.start, seen.far + 1, seen.accepted + good, sizes)
        return Unusual(dict(list(labels.items())[-LABELS:])), accepted
