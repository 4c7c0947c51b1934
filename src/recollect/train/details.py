"""Optional outputs of a job: curves, confusion matrices, saved networks, callbacks."""

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
    """The optional outputs of a job; only callbacks can change the training.

    Attributes:
        curves: The number of steps between two points of the curves; 0 for no curves.
        examples: The largest number of test examples per task for a point.
        confusion: Whether to compute confusion matrices at the end.
        networks: The folder for trained networks; None to not save them.
        callbacks: The callbacks to call during training.
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
        """Validate the user's arguments; `curves=True` is the default interval."""
        every = CURVE_STEPS if curves is True else curves
        if not isinstance(every, int) or every < 0:
            raise InputError(f"curves must be a whole number of at least 1 step, not {curves!r}")
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
        """The callbacks that may change the training."""
        return tuple(each for each in self.callbacks if not each.only_observes)

    @property
    def key(self) -> list[Any]:
        """Plain data that distinguishes jobs with different details; empty without any."""
        curves = [self.curves, self.examples] if self.curves else None
        found = [curves, self.confusion, str(self.networks or "")]
        return found if any(found) else []

    def lacking(self, result: Result) -> bool:
        """Whether a stored result lacks some of the requested outputs."""
        curves, file = result.curves, result.network_file
        asked = (self.curves, self.examples)
        if self.curves and (curves is None or (curves.every, curves.examples) != asked):
            return True
        if self.confusion and result.confusion is None:
            return True
        if self.networks is None:
            return False
        return file is None or Path(file).parent != self.networks or not Path(file).is_file()
