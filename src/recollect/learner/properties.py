"""The public attributes of a learner."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recollect.errors import InputError
from recollect.learner.fair_lock import FairLock
from recollect.learner.inputs.outliers import Outlier
from recollect.learner.monitoring.drift import Alarm, Detector, Drift
from recollect.learner.optimising import check_lr
from recollect.learner.saving.snapshot import Snapshot
from recollect.learner.settings import Settings
from recollect.methods import Method

ASSIGNED = ("drift", "lr", "notes")


class Properties:
    """The attributes of a `Learner`; only `drift`, `lr` and `notes` may be assigned."""

    _settings: Settings
    _now: Snapshot
    _lock: FairLock

    if not TYPE_CHECKING:  # a type checker would otherwise accept any attribute

        def __setattr__(self, name: str, value: object) -> None:
            if not name.startswith("_") and name not in ASSIGNED:
                other = "pass other settings as arguments of Learner(...)"
                if name == "memory":
                    other = f"to change the size of the memory, call resize({value!r})"
                raise AttributeError(
                    f"{name!r} cannot be assigned: only drift, lr and notes can be changed on a "
                    f"learner; {other}"
                )
            object.__setattr__(self, name, value)

    @property
    def lr(self) -> float:
        """The learning rate before any schedule; a new one takes effect at the next step."""
        return self._settings.lr

    @lr.setter
    def lr(self, lr: float) -> None:
        with self._lock:
            settings = replace(self._settings, lr=lr)
            check_lr(settings.lr)
            self._settings = settings
            if self._now.engine is not None:
                self._now.engine.set_lr(settings.lr)

    @property
    def drift(self) -> Detector | None:
        """The drift detector that monitors the prediction errors, or None.

        Assign the name of a River detector such as "ADWIN", or a detector: it starts with the next
        example. None stops monitoring and discards the alarms.
        """
        return self._now.drift.detector if self._now.drift else None

    @drift.setter
    def drift(self, given: Any) -> None:
        if given is not None and self._settings.target.name != "class":
            raise InputError(
                f"drift detection needs target='class', and this learner has "
                f"target={self._settings.target.name!r}: leave drift out"
            )
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
        """The latest drift alarms, at most ten; `metrics().alarms` counts all of them."""
        return self._now.drift.last if self._now.drift else ()

    @property
    def seen(self) -> int:
        """Number of examples learned so far."""
        return self._now.engine.fleet.seen if self._now.engine else 0

    @property
    def arrived(self) -> int:
        """Number of examples that arrived, learned or left out: the position in the stream."""
        return self._now.watch.arrived

    @property
    def outliers(self) -> tuple[Outlier, ...]:
        """The latest examples that were left out, at most ten, with their number and reason."""
        return self._now.watch.last

    @property
    def steps(self) -> int:
        """Number of optimisation steps taken: one for every call of `observe` that learned."""
        return self._now.engine.fleet.steps if self._now.engine else 0

    @property
    def classes(self) -> list[Hashable]:
        """The known labels, in the order of the columns of `predict_proba`."""
        return list(self._now.labels.known)

    def knows(self, label: Hashable) -> bool:
        """Whether a label is among `classes`."""
        return label in self._now.labels

    @property
    def fixed_classes(self) -> bool:
        """Whether the learner was created with `classes`, so that no other can be learned."""
        return self._now.labels.fixed

    @property
    def target(self) -> str:
        """What the learner predicts: "class", "regression" or "labels"."""
        return self._settings.target.name

    @property
    def method(self) -> Method:
        """The continual learning method."""
        return self._settings.method

    @property
    def memory_bytes(self) -> int:
        """Bytes of the replay memory and the method's state, without the network.

        The number does not grow with the length of the stream.
        """
        return self._now.engine.fleet.bytes_per_run if self._now.engine else 0
