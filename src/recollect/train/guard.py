"""What lets a step that went wrong be taken back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import torch
from torch import Tensor

from recollect.core.optimiser import Optimiser
from recollect.memory import Memory

__all__ = ["Guard"]


@final
class Guard:
    """Notes how things were before a step, and can bring that back.

    The memory is noted when a step is about to write there: only the rows that it overwrites.
    """

    def __init__(
        self, tensors: Sequence[Tensor], memory: Memory, optimiser: Optimiser | None
    ) -> None:
        self._tensors = list(tensors)
        self._before = [tensor.clone() for tensor in tensors]
        # A network may hold infinities on purpose, such as a mask; those do not tell of a step.
        self._watched = [t for t in tensors if t.is_floating_point() and bool(t.isfinite().all())]
        self._memory = memory
        self._optimiser = optimiser
        self._kept: Mapping[str, Tensor] = {}
        self._written: tuple[Tensor, Mapping[str, Tensor]] | None = None
        self._noted = False

    def forget(self) -> None:
        """The last step stays: there is nothing to undo."""
        self._noted = False

    @torch.no_grad()
    def note(self) -> None:
        """A step begins."""
        self._written = None
        torch._foreach_copy_(self._before, self._tensors)
        if self._optimiser is not None:
            kept = self._optimiser.tensors()
            self._kept = {name: tensor.clone() for name, tensor in kept.items()}
        self._noted = True

    def note_rows(self, rows: Tensor) -> None:
        """The step is about to write these rows of the memory, `[K, n]`."""
        self._written = rows, self._memory.read(rows)

    def finite(self, loss: Tensor) -> bool:
        """Whether the step led somewhere: its loss and all that it changed are numbers."""
        kept = self._optimiser.tensors().values() if self._optimiser is not None else ()
        each = [
            loss,
            *self._watched,
            *(t for t in kept if t.is_floating_point() and t.device == loss.device),
        ]
        return bool(torch.stack([_sum(tensor) for tensor in each]).isfinite().all())

    @torch.no_grad()
    def undo(self) -> None:
        """Bring everything back to where it was when the step began, if one was."""
        if not self._noted:
            return
        torch._foreach_copy_(self._tensors, self._before)
        if self._optimiser is not None:
            self._optimiser.restore(self._kept)
        if self._written is not None:
            self._memory.write(*self._written)


def _sum(tensor: Tensor) -> Tensor:
    """The sum in a type in which that of many small numbers does not overflow."""
    return tensor.sum(dtype=torch.promote_types(tensor.dtype, torch.float32))
