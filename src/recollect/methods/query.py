"""What a method sees of examples whose classes are asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from torch import Tensor

from recollect.core.model import Model
from recollect.core.state import State
from recollect.memory import Memory
from recollect.memory.clock import Clock

__all__ = ["Query"]


@final
@dataclass(frozen=True)
class Query:
    """Examples to predict, with the model, the method's state and its memory; all are read only.

    `x` `[K, n, ...]` are the inputs of the networks. `task` is the task that the examples belong
    to, for methods that need it; there are `classes` to choose from. `inputs` turns stored examples
    into inputs of the networks.
    """

    x: Tensor
    task: int
    classes: int
    model: Model
    state: State
    memory: Memory
    clock: Clock
    inputs: Callable[[Tensor], Tensor]
