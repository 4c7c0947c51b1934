"""What a method is, and what it sees of a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from torch import Tensor

from recollect.errors import InputError
from recollect.memory import Remembered

__all__ = ["Method", "Step"]


class Step:
    """One step of K runs: the batch that arrived, the networks, and draws from memory."""

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        forward: Callable[[Tensor, Sequence[int]], Tensor],
        replays: list[Remembered],
        separate: bool = False,
    ) -> None:
        self.x = x
        self.y = y
        self.kept: dict[str, Tensor] = {}
        self._forward = forward
        self._separate = separate
        self._replays = iter(replays)

    def net(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """The logits `[K, n, C]` of each part `[K, n, ...]`, as separate passes would give them.

        All parts go through the network in one pass, unless it has a state that one pass for each
        would change otherwise.
        """
        sizes = [part.shape[1] for part in parts]
        if self._separate:
            passes = [
                self._forward(part, (size,)) if size else None
                for part, size in zip(parts, sizes, strict=True)
            ]
            some = next(logits for logits in passes if logits is not None)
            return tuple(some[:, :0] if logits is None else logits for logits in passes)
        logits = self._forward(torch.cat(parts, 1) if len(parts) > 1 else parts[0], sizes)
        return torch.split_with_sizes(logits, sizes, 1)

    def draw(self) -> Remembered:
        """The next draw from memory; it has no examples while the memory is empty."""
        try:
            return next(self._replays)
        except StopIteration:
            raise InputError("the method draws more often than its `draws` says") from None

    def remember(self, **fields: Tensor) -> None:
        """Give the fields that are kept besides x and y, should this batch enter the memory."""
        self.kept.update({name: value.detach() for name, value in fields.items()})


@dataclass(frozen=True)
class Method(ABC):
    """A way to learn from a stream, declared by its hyper-parameters and its loss.

    It is written for one run: a hyper-parameter is a number. In a fleet of K runs the same code
    sees a tensor `[K]` in its place, and returns a loss `[K]`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    remembers: ClassVar[tuple[str, ...]] = ()
    draws: ClassVar[int] = 0
    needs_boundaries: ClassVar[bool] = False
    needs_all_data: ClassVar[bool] = False

    @abstractmethod
    def loss(self, step: Step) -> Tensor:
        """What the step descends on, one value per run, `[K]`."""

    @classmethod
    def hyperparameters(cls) -> tuple[str, ...]:
        """The names of the method's own hyper-parameters."""
        return tuple(field.name for field in fields(cls))

    @classmethod
    def uses_memory(cls) -> bool:
        """Whether it replays what it remembers."""
        return bool(cls.remembers)
