"""What a learner says of itself, and what may be set on it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recollect.learner.drift import Alarm, Detector, Drift
from recollect.learner.fair_lock import FairLock
from recollect.learner.optimising import check_lr
from recollect.learner.outliers import Outlier
from recollect.learner.settings import Settings
from recollect.learner.snapshot import Snapshot
from recollect.methods import Method

__all__ = ["Properties"]

ASSIGNED = ("drift", "lr", "notes")


class Properties:
    """The attributes of a `Learner`: `drift`, `lr` and `notes` may be set, and no others."""

    _settings: Settings
    _now: Snapshot
    _lock: FairLock
    notes: dict[str, Any]

    if not TYPE_CHECKING:  # with it, a type checker would let any attribute be set

        def __setattr__(self, name: str, value: object) -> None:
            if not name.startswith("_") and name not in ASSIGNED:
                raise AttributeError(
                    f"{name!r} cannot be set on a learner: drift, lr and notes can, and all else "
                    f"is an argument when it is made"
                )
            object.__setattr__(self, name, value)

    @property
    def lr(self) -> float:
        """The learning rate, before any schedule; one that is set is used from the next step on."""
        return self._settings.lr

    @lr.setter
    def lr(self, lr: float) -> None:
        check_lr(lr)
        with self._lock:
            self._settings = replace(self._settings, lr=lr)
            if self._now.engine is not None:
                self._now.engine.set_lr(lr)

    @property
    def drift(self) -> Detector | None:
        """The detector that watches its errors, if there is one.

        A name such as "ADWIN", or one of River's detectors, that is set begins with the next
        example; None ends it, and forgets the alarms.
        """
        return self._now.drift.detector if self._now.drift else None

    @drift.setter
    def drift(self, given: Any) -> None:
        detector = None if given is None else Detector.of(given)
        with self._lock:
            before = self._now.drift
            if detector is None:
                now = None
            else:
                now = before.with_detector(detector) if before else Drift(detector)
            self._now = self._now._replace(drift=now)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The last ten drift alarms; `metrics().alarms` counts all."""
        return self._now.drift.last if self._now.drift else ()

    @property
    def seen(self) -> int:
        """How many examples it has learned from."""
        return self._now.engine.fleet.seen if self._now.engine else 0

    @property
    def arrived(self) -> int:
        """How many examples arrived, learned or left out: where to continue in the stream."""
        return self._now.watch.arrived

    @property
    def outliers(self) -> tuple[Outlier, ...]:
        """The last ten examples that were left out, each with its number and the reason."""
        return self._now.watch.last

    @property
    def steps(self) -> int:
        """How many steps it has taken: one for every `observe`."""
        return self._now.engine.fleet.steps if self._now.engine else 0

    @property
    def classes(self) -> list[Hashable]:
        """The labels it knows, in the order of the columns of `predict_proba`."""
        return list(self._now.labels.known)

    def knows(self, label: Hashable) -> bool:
        """Whether a label is among `classes`."""
        return label in self._now.labels

    @property
    def fixed_classes(self) -> bool:
        """Whether it was made with `classes`, so that no others can be learned."""
        return self._now.labels.fixed

    @property
    def method(self) -> Method:
        """The method it learns with."""
        return self._settings.method

    @property
    def memory_bytes(self) -> int:
        """The bytes of memory and state, without the network: it does not grow with the stream."""
        return self._now.engine.fleet.bytes_per_run if self._now.engine else 0
