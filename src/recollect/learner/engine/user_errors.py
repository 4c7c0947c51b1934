"""Convert exceptions of the user's code to an `InputError`."""

from __future__ import annotations

from typing import final

import torch

from recollect.errors import InputError, RecollectError
from recollect.learner.engine.growth import first_line
from recollect.methods import Method

PASSED_ON = (RecollectError, torch.OutOfMemoryError, MemoryError)


@final
class UserErrors:
    """Context that converts exceptions of the user's network, transforms and method."""

    def __init__(self, method: Method) -> None:
        custom = not type(method).__module__.startswith("recollect.")
        self._whose = f"the method {method.title}, " if custom else ""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, PASSED_ON):
            raise InputError(
                f"{self._whose}the network or a transform failed on these examples: "
                f"{first_line(error)}"
            ) from error
