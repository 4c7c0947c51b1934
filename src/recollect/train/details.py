"""What a job gives beside its scores: curves, confusion matrices, networks, calls of yours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from recollect.errors import InputError
from recollect.train.callbacks import Callback, check_callback

if TYPE_CHECKING:
    from recollect.train.result import Result

__all__ = ["CURVE_EXAMPLES", "CURVE_STEPS", "Details"]

CURVE_STEPS = 200
CURVE_EXAMPLES = 100


@final
@dataclass(frozen=True)
class Details:
    """What a job gives beside its scores; only callbacks can change how it trains.

    Attributes:
        curves: The number of steps between two points of the curves; 0 for no curves.
        examples: How many test examples of each task a point is measured on, at most.
        confusion: Whether confusion matrices are counted at the end.
        networks: The folder in which trained networks are saved, if they are.
        callbacks: What is called while it trains.
    """

    curves: int = 0
    examples: int = CURVE_EXAMPLES
    confusion: bool = False
    networks: Path | None = None
    callbacks: tuple[Callback, ...] = ()

    @classmethod
    def of(
        cls,
        curves: int | bool = False,
        examples: int = CURVE_EXAMPLES,
        confusion: bool = False,
        networks: Path | str | None = None,
        callbacks: Sequence[Callback] | Callback = (),
    ) -> Details:
        """What a person asked for, checked; `curves=True` is the usual interval."""
        every = CURVE_STEPS if curves is True else curves
        if not isinstance(every, int) or every < 0:
            raise InputError(f"curves must be a whole number of steps from 1 on, not {curves!r}")
        if not isinstance(examples, int) or examples < 1:
            raise InputError(
                f"the number of test examples for curves must be at least 1, not {examples!r}"
            )
        given = (callbacks,) if isinstance(callbacks, Callback) else tuple(callbacks)
        for each in given:
            check_callback(each)
        folder = None if networks is None else Path(networks).absolute()
        if folder is not None:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(
                    f"networks cannot be saved in {str(networks)!r}: {error.strerror or error}"
                ) from None
        return cls(int(every), examples, bool(confusion), folder, given)

    @property
    def changing(self) -> tuple[Callback, ...]:
        """The callbacks that may change what is trained."""
        return tuple(each for each in self.callbacks if not each.only_observes)

    @property
    def key(self) -> list[Any]:
        """Plain data that tell unfinished jobs with other details apart; empty without any."""
        curves = [self.curves, self.examples] if self.curves else None
        found = [curves, self.confusion, str(self.networks or "")]
        return found if any(found) else []

    def lacking(self, result: Result) -> bool:
        """Whether a stored result does not have what is asked for."""
        curves, file = result.curves, result.network_file
        asked = (self.curves, self.examples)
        if self.curves and (curves is None or (curves.every, curves.examples) != asked):
            return True
        if self.confusion and result.confusion is None:
            return True
        if self.networks is None:
            return False
        return file is None or Path(file).parent != self.networks or not Path(file).is_file()
