"""Accept outliers of labels whose examples are outliers repeatedly."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple, final

from recollect.learner.inputs.feature_quantiles import FACTOR

ENOUGH, LABELS = 5, 100


class Seen(NamedTuple):
    """Numbers of outliers and accepted ones of a label since `start` examples were learned."""

    start: int
    far: int
    accepted: int
    sizes: tuple[float, ...]


@final
@dataclass(frozen=True)
class Unusual:
    """Counts of outliers per label, which tell a new kind of example from random glitches.

    If at least half of the latest examples of a label are outliers, the fifth of them is accepted,
    and so are all later ones of about the same magnitude.
    """

    labels: Mapping[Hashable, Seen] = field(default_factory=dict)

    def after(
        self, far: Iterable[tuple[Hashable, float]], learned: Callable[[Hashable], int]
    ) -> tuple[Unusual, list[bool]]:
        """Update with outliers (label, magnitude), and return whether to accept each."""
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
