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

    >>> import torch
    >>> from recollect import MLP, SGD, Fleet
    >>> class Loud(SGD):
    ...     def predict(self, query: Query) -> Tensor:
    ...         print(query.x.shape, query.classes)
    ...         return query.model.logits(query.x)
    >>> fleet = Fleet([Loud()], lambda: MLP(4, 3), seeds=[0], lr=[0.1], classes=3, shape=(4,))
    >>> fleet.predict(torch.zeros(1, 5, 4)).shape
    torch.Size([1, 5, 4]) 3
    torch.Size([1, 5, 3])
    """

    x: Tensor
    task: int
    classes: int
    model: Model
    state: State
    memory: Memory
    clock: Clock
    inputs: Callable[[Tensor], Tensor]
