"""Drift alarms: tell from a learner's errors, through a detector of River's, when it gets worse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, final

import numpy as np
import torch
from torch import Tensor

from recollect.errors import DataError, InputError
from recollect.extras import needs

__all__ = ["DEFAULT", "FAMILIAR", "Alarm", "Detector", "Drift"]

DEFAULT = "ADWIN"
# Not EDDM, which raises many false alarms, nor FHDDM, which detects errors that fall.
NAMES = ("ADWIN", "DDM", "HDDMA", "HDDMW", "KSWIN", "PageHinkley")
# River's own settings, but for these (benchmarks/drift.py).
USUAL: dict[str, dict[str, Any]] = {
    "ADWIN": {"delta": 0.01}, "KSWIN": {"seed": 0}, "PageHinkley": {"mode": "up"},
}  # fmt: skip
FAMILIAR = 50  # examples of a class, before which an error says that it is new
HORIZON = 5_000
LAST = 10
CLEARLY = 4.0  # standard errors by which an error has risen if an alarm is raised


class Alarm(NamedTuple):
    """A drift alarm: the number of the learned example, from 0, and the error before and after.

    `before` and `after` are shares of wrong predictions on either side of where they rose most,
    among those that the detector has seen since it began.

    >>> from recollect import ER, MLP, Learner
    >>> learner = Learner(MLP(1, 1), ER(), drift="ADWIN")
    >>> for labels in 200 * [["a", "b"]] + 100 * [["a", "a"]]:  # what was "b" is "a" from now on
    ...     _ = learner.observe([[1.0], [-1.0]], labels, predicted=["a", "b"])
    >>> learner.alarms[0].after > learner.alarms[0].before
    True
    """

    number: int
    before: float
    after: float


class _RiverDetector(Protocol):
    drift_detected: bool

    def update(self, x: int) -> object: ...


@final
@dataclass(frozen=True)
class Detector:
    """A detector of `river.drift`, by name, with the settings that it was made with.

    >>> Detector.of("adwin").name
    'ADWIN'
    """

    name: str
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, given: Any) -> Detector:
        """The detector for a name, one of River's detectors, or what `plain` gave."""
        if isinstance(given, Detector):
            return given
        if isinstance(given, str):
            name = _known(given)
            return cls(name, cls(name, USUAL.get(name, {})).settings_now())
        name = _known(type(given).__name__)
        if not isinstance(given, _class_of(name)):
            raise InputError(f"{given!r} is not a detector of River's: give one of {_listed()}")
        return cls(name, cls(name, given._get_params()).settings_now())

    @classmethod
    def restored(cls, facts: Mapping[str, Any]) -> Detector:
        """The detector that was saved as `facts`."""
        return cls(_known(facts["name"]), dict(facts["settings"]))

    def facts(self) -> dict[str, Any]:
        """What is saved as plain data."""
        return {"name": self.name, "settings": dict(self.settings)}

    def made(self) -> _RiverDetector:
        """A new one that has seen nothing."""
        found: _RiverDetector = _class_of(self.name)(**self.settings)
        return found

    def settings_now(self) -> dict[str, Any]:
        """All settings, with River's own values where none was given."""
        made: Any = self.made()
        plain = {n: v for n, v in made._get_params().items() if n != "window"}
        for name, value in plain.items():
            if not isinstance(value, int | float | str | None):
                raise InputError(f"{self.name} has {name}={value!r}, which no file can have")
        if self.name == "KSWIN" and plain.get("seed") is None:
            raise InputError("KSWIN draws random numbers: give it a seed")
        return plain

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"{self.name}({settings})"


@final
@dataclass(frozen=True)
class Drift:
    """A detector, the outcomes that it has seen since it began, and the alarms so far.

    A detector is given whether each prediction was wrong, unless the label or the prediction is a
    class with fewer than `FAMILIAR` examples so far: errors are to be expected there. What it
    detects is an alarm if the error rose. It begins anew after an alarm, as River's do, and from
    where the error fell most if it fell.

    So that a file can have its state without executing code, it is always what these outcomes
    `[n]` make of a new one. After `2 * HORIZON` of them it is made anew from the last `HORIZON`,
    whether it was saved or not.
    """

    detector: Detector
    outcomes: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    alarms: int = 0
    last: tuple[Alarm, ...] = ()
    # What `outcomes` made of the detector; the step after this one takes it, and changes it.
    _running: list[_RiverDetector] = field(default_factory=list, compare=False, repr=False)

    def after(self, numbers: np.ndarray, guessed: np.ndarray, met: np.ndarray, first: int) -> Drift:
        """The state after labels `[n]` and predictions `[n]`, -1 if none, both by number.

        `met` has how many examples of every class were learned before, and `first` is the number
        of the first of these.
        """
        rows = np.flatnonzero(_familiar(numbers, met) & ((guessed < 0) | _familiar(guessed, met)))
        running, outcomes, start, new = self._taken(), self.outcomes, 0, list[Alarm]()
        bits = (numbers != guessed)[rows].astype(np.uint8)
        for count, bit in enumerate(bits.tolist(), 1):
            running.update(bit)
            if running.drift_detected:
                since, start = np.concatenate([outcomes, bits[start:count]]), count
                rise = _rise(since)
                if rise is None:  # the error falls: what was before is forgotten
                    outcomes = since[_fall(since) :]
                else:
                    new.append(Alarm(first + int(rows[count - 1]), *rise))
                    outcomes = since[:0]
                running = _filled(self.detector, outcomes)
        outcomes = np.concatenate([outcomes, bits[start:]])
        if len(outcomes) >= 2 * HORIZON:
            outcomes = outcomes[-HORIZON:]
            running = _filled(self.detector, outcomes)
        alarms, last = self.alarms + len(new), (*self.last, *new)[-LAST:]
        return Drift(self.detector, outcomes, alarms, last, [running])

    def _taken(self) -> _RiverDetector:
        # A step that was undone has changed it: then it is made again from the outcomes.
        try:
            return self._running.pop()
        except IndexError:
            return _filled(self.detector, self.outcomes)

    def with_detector(self, detector: Detector) -> Drift:
        """The same alarms, with another detector that begins now."""
        if detector == self.detector:
            return self
        return Drift(detector, alarms=self.alarms, last=self.last)

    def facts(self) -> dict[str, Any]:
        """What is saved as plain data."""
        last = [list(alarm) for alarm in self.last]
        return {**self.detector.facts(), "alarms": self.alarms, "last": last}

    def tensors(self) -> dict[str, Tensor]:
        """What is saved as tensors."""
        return {"outcomes": torch.from_numpy(self.outcomes.copy())}

    @classmethod
    def restored(cls, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Drift:
        """The state that was saved as `facts` and `tensors`."""
        outcomes, alarms = tensors["outcomes"].numpy().copy(), facts["alarms"]
        sound = (
            outcomes.dtype == np.uint8
            and outcomes.ndim == 1
            and len(outcomes) < 2 * HORIZON
            and bool((outcomes <= 1).all())
            and type(alarms) is int
            and alarms >= len(facts["last"])
            and len(facts["last"]) <= LAST
        )
        if not sound:
            raise DataError("what it has of drift alarms contradicts itself")
        last = tuple(Alarm(int(at), float(a), float(b)) for at, a, b in facts["last"])
        return cls(Detector.restored(facts), outcomes, alarms, last)


def _filled(detector: Detector, outcomes: np.ndarray) -> _RiverDetector:
    """A new detector that has seen these outcomes; what it finds among them is not told again."""
    made = detector.made()
    for bit in outcomes.tolist():
        made.update(bit)
        if made.drift_detected:
            made = detector.made()
    return made


def _rise(wrong: np.ndarray) -> tuple[float, float] | None:
    """The error before and after the place in `[n]` outcomes where it rises most, if it does."""
    scores = _steps(wrong)
    if not len(scores) or scores.max() < CLEARLY:
        return None
    at = int(scores.argmax()) + 1
    return float(wrong[:at].mean()), float(wrong[at:].mean())


def _fall(wrong: np.ndarray) -> int:
    """The place in `[n]` outcomes where the error falls most."""
    scores = _steps(wrong)
    return int(scores.argmin()) + 1 if len(scores) else len(wrong)


def _steps(wrong: np.ndarray) -> np.ndarray:
    """How much the error rises at every place `[n - 1]` in outcomes `[n]`, in standard errors."""
    n, count, total = len(wrong), np.arange(1, len(wrong)), np.cumsum(wrong, dtype=np.int64)
    share = total[-1] / n
    spread = count * (n - count) / n * max(share * (1 - share), 1e-9)
    found: np.ndarray = (count * share - total[:-1]) / np.sqrt(spread)
    return found


def _familiar(numbers: np.ndarray, met: np.ndarray) -> np.ndarray:
    """Which of some classes `[n]` had enough examples for an error to say something."""
    inside = numbers < len(met)
    return inside & (met[np.where(inside, numbers, 0)] >= FAMILIAR) if len(met) else inside


def _known(name: object) -> str:
    plain = {each.lower(): each for each in NAMES}
    found = plain.get(str(name).replace("_", "").lower())
    if found is None:
        raise InputError(f"{name!r} is not a detector of River's: give one of {_listed()}")
    return found


def _listed() -> str:
    return ", ".join(NAMES)


def _class_of(name: str) -> Any:
    with needs("river", extra="river", what="A drift alarm"):
        from river import drift
    for home in (drift, drift.binary):
        for each in home.__all__:
            if each.replace("_", "") == name:  # River has renamed some
                return getattr(home, each)
    raise InputError(f"this version of River has no {name}: give another of {_listed()}")
