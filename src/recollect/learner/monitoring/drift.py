"""Drift alarms: detect an increase of a learner's error rate with a drift detector of River."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, final

import numpy as np
import torch
from torch import Tensor

from recollect.errors import DataError, InputError
from recollect.extras import needs

DEFAULT = "ADWIN"
# Not EDDM, which raises many false alarms, nor FHDDM, which detects a decrease of the error.
NAMES = ("ADWIN", "DDM", "HDDMA", "HDDMW", "KSWIN", "PageHinkley")
# River's defaults, except for these (benchmarks/drift.py).
USUAL: dict[str, dict[str, Any]] = {
    "ADWIN": {"delta": 0.01}, "KSWIN": {"seed": 0}, "PageHinkley": {"mode": "up"},
}  # fmt: skip
FAMILIAR = 50  # errors on a class with fewer examples are expected, and not used
HORIZON = 5_000
LAST = 10
LEAST_RISE = 4.0  # minimum increase of the error rate for an alarm, in standard errors


class Alarm(NamedTuple):
    """A drift alarm: the index of the example, and the error rate before and after the change.

    `number` is the index among the learned examples, starting at 0. The change point is where the
    error rate increased most, among the predictions that the detector has seen since its start.

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
    """A drift detector of `river.drift`, by name, and its parameters.

    >>> Detector.of("adwin").name
    'ADWIN'
    """

    name: str
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, given: Any) -> Detector:
        """Create it from a name, from a detector of River, or from another `Detector`."""
        if isinstance(given, Detector):
            return given
        if isinstance(given, str):
            name = _known(given)
            return cls(name, cls(name, USUAL.get(name, {})).settings_now())
        name = _known(type(given).__name__)
        if not isinstance(given, _class_of(name)):
            raise InputError(
                f"{given!r} is not a supported drift detector of River: give one of {_listed()}"
            )
        return cls(name, cls(name, given._get_params()).settings_now())

    @classmethod
    def restored(cls, facts: Mapping[str, Any]) -> Detector:
        """Restore the detector that was saved as `facts`."""
        return cls(_known(facts["name"]), dict(facts["settings"]))

    def facts(self) -> dict[str, Any]:
        """Return the plain data to save."""
        return {"name": self.name, "settings": dict(self.settings)}

    def made(self) -> _RiverDetector:
        """Create a new detector of River."""
        found: _RiverDetector = _class_of(self.name)(**self.settings)
        return found

    def settings_now(self) -> dict[str, Any]:
        """Return all parameters, including River's defaults."""
        made: Any = self.made()
        plain = {n: v for n, v in made._get_params().items() if n != "window"}
        for name, value in plain.items():
            if not isinstance(value, int | float | str | None):
                raise InputError(
                    f"{self.name} has {name}={value!r}, which cannot be saved: give a number, "
                    f"text or None"
                )
        if self.name == "KSWIN" and plain.get("seed") is None:
            raise InputError("KSWIN uses random numbers: give it a seed")
        return plain

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"{self.name}({settings})"


@final
@dataclass(frozen=True)
class Drift:
    """A drift detector, the outcomes it has seen since its start, and the alarms so far.

    The detector is updated with whether each prediction was wrong, except where the label or the
    prediction is a class with fewer than `FAMILIAR` examples so far: errors are expected there. A
    detected change is an alarm if the error rate increased. After an alarm, the detector starts
    again, as is usual in River; after a decrease, it starts again from where the error rate
    decreased most.

    To be saved without executing code on loading, the state of the detector is defined as that of a
    new one after the `outcomes` `[n]`. After `2 * HORIZON` outcomes, it is always rebuilt from the
    last `HORIZON`, so that saving does not change the results.
    """

    detector: Detector
    outcomes: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    alarms: int = 0
    last: tuple[Alarm, ...] = ()
    # The detector after `outcomes`; the next step removes it from the list and updates it.
    _running: list[_RiverDetector] = field(default_factory=list, compare=False, repr=False)

    def after(self, numbers: np.ndarray, guessed: np.ndarray, met: np.ndarray, first: int) -> Drift:
        """Return the state after labels `[n]` and predictions `[n]` (-1: none), as class indices.

        `met` has the number of examples of every class that were learned before, and `first` is the
        index of the first of the new examples.
        """
        rows = np.flatnonzero(_familiar(numbers, met) & ((guessed < 0) | _familiar(guessed, met)))
        running, outcomes, start, new = self._take_running(), self.outcomes, 0, list[Alarm]()
        bits = (numbers != guessed)[rows].astype(np.uint8)
        for count, bit in enumerate(bits.tolist(), 1):
            running.update(bit)
            if running.drift_detected:
                since, start = np.concatenate([outcomes, bits[start:count]]), count
                rise = _rise(since)
                if rise is None:  # the error rate decreased: drop the outcomes before
                    outcomes = since[_fall(since) :]
                else:
                    new.append(Alarm(first + int(rows[count - 1]), *rise))
                    outcomes = since[:0]
                running = _detector_after(self.detector, outcomes)
        outcomes = np.concatenate([outcomes, bits[start:]])
        if len(outcomes) >= 2 * HORIZON:
            outcomes = outcomes[-HORIZON:]
            running = _detector_after(self.detector, outcomes)
        alarms, last = self.alarms + len(new), (*self.last, *new)[-LAST:]
        return Drift(self.detector, outcomes, alarms, last, [running])

    def _take_running(self) -> _RiverDetector:
        # If a step that was undone has taken it, it is rebuilt from the outcomes.
        try:
            return self._running.pop()
        except IndexError:
            return _detector_after(self.detector, self.outcomes)

    def with_detector(self, detector: Detector) -> Drift:
        """Return the state with another detector that starts now, and the same alarms."""
        if detector == self.detector:
            return self
        return Drift(detector, alarms=self.alarms, last=self.last)

    def facts(self) -> dict[str, Any]:
        """Return the plain data to save."""
        last = [list(alarm) for alarm in self.last]
        return {**self.detector.facts(), "alarms": self.alarms, "last": last}

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors to save."""
        return {"outcomes": torch.from_numpy(self.outcomes.copy())}

    @classmethod
    def restored(cls, facts: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Drift:
        """Restore the state that was saved as `facts` and `tensors`."""
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
            raise DataError("the saved state of the drift detector is damaged")
        last = tuple(Alarm(int(at), float(a), float(b)) for at, a, b in facts["last"])
        return cls(Detector.restored(facts), outcomes, alarms, last)


def _detector_after(detector: Detector, outcomes: np.ndarray) -> _RiverDetector:
    """Create a detector that has seen these outcomes, without raising alarms for them again."""
    made = detector.made()
    for bit in outcomes.tolist():
        made.update(bit)
        if made.drift_detected:
            made = detector.made()
    return made


def _rise(wrong: np.ndarray) -> tuple[float, float] | None:
    """Return the error rate before and after its largest increase in outcomes `[n]`, if any."""
    scores = _steps(wrong)
    if not len(scores) or scores.max() < LEAST_RISE:
        return None
    at = int(scores.argmax()) + 1
    return float(wrong[:at].mean()), float(wrong[at:].mean())


def _fall(wrong: np.ndarray) -> int:
    """Return the index in outcomes `[n]` where the error rate decreases most."""
    scores = _steps(wrong)
    return int(scores.argmin()) + 1 if len(scores) else len(wrong)


def _steps(wrong: np.ndarray) -> np.ndarray:
    """Return the increase of the error rate at every index `[n - 1]`, in standard errors."""
    n, count, total = len(wrong), np.arange(1, len(wrong)), np.cumsum(wrong, dtype=np.int64)
    share = total[-1] / n
    spread = count * (n - count) / n * max(share * (1 - share), 1e-9)
    found: np.ndarray = (count * share - total[:-1]) / np.sqrt(spread)
    return found


def _familiar(numbers: np.ndarray, met: np.ndarray) -> np.ndarray:
    """Return which classes `[n]` have had at least `FAMILIAR` examples."""
    inside = numbers < len(met)
    return inside & (met[np.where(inside, numbers, 0)] >= FAMILIAR) if len(met) else inside


def _known(name: object) -> str:
    plain = {each.lower(): each for each in NAMES}
    found = plain.get(str(name).replace("_", "").lower())
    if found is None:
        raise InputError(
            f"{name!r} is not a supported drift detector of River: give one of {_listed()}"
        )
    return found


def _listed() -> str:
    return ", ".join(NAMES)


def _class_of(name: str) -> Any:
    with needs("river", extra="river", what="drift detection"):
        from river import drift
    for home in (drift, drift.binary):
        for each in home.__all__:
            if each.replace("_", "") == name:  # some are spelled with _ in other versions
                return getattr(home, each)
    raise InputError(f"the installed version of River has no {name}: give one of {_listed()}")
