"""What lets a step that went wrong be taken back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import final

import torch
from torch import Tensor

from recollect.core.torch_optimiser import TorchOptimiser
from recollect.memory import Memory

__all__ = ["Guard", "Rows"]

TRIED = 4

Rows = tuple[Tensor, Mapping[str, Tensor]]  # rows of a memory `[K, n]`, and what they held


@final
class Guard:
    """Notes how things were before a step, and can bring that back.

    The memory is noted when a step is about to write there: only the rows that it overwrites. An
    optimiser of torch's makes its state as it goes, so it is asked for it at every step; that of a
    `FleetOptimiser` is among `tensors`.
    """

    def __init__(
        self, tensors: Sequence[Tensor], memory: Memory, optimiser: TorchOptimiser | None
    ) -> None:
        self._tensors = list(tensors)
        self._before = [tensor.clone() for tensor in tensors]
        # A network may hold infinities on purpose, such as a mask; those do not tell of a step.
        self._watched = {
            index
            for index, tensor in enumerate(tensors)
            if tensor.is_floating_point() and bool(tensor.isfinite().all())
        }
        self._seldom: dict[int, int] = {}
        self._notes = 0
        self._memory = memory
        self._optimiser = optimiser
        self._kept: Mapping[str, Tensor] = {}
        self._written: Rows | None = None
        self._logs: list[list[Rows]] = []
        self._noted = False

    def expect_seldom(self, tensors: Iterable[Tensor]) -> None:
        """Say which tensors may never change, such as frozen weights: a copy is kept of them.

        They are copied again when torch has counted a change in place. What is written through
        `.data` is not counted, so the first steps are watched for that; a tensor that changes
        uncounted is copied before every step, like all others.
        """
        wanted = {id(tensor) for tensor in tensors}
        found = enumerate(self._tensors)
        self._seldom = {index: t._version for index, t in found if id(t) in wanted}
        self._notes = 0

    def forget(self) -> None:
        """The last step stays: there is nothing to undo."""
        self._noted = False

    def note(self) -> None:
        """A step begins."""
        self._written = None
        if self._seldom and self._notes <= TRIED:
            self._try_counters()
        self._copy(self._before, self._tensors)
        if self._optimiser is not None:
            self._kept = {name: t.clone() for name, t in self._optimiser.state.items()}
        self._noted = True

    def note_rows(self, rows: Tensor) -> None:
        """The step is about to write these rows of the memory, `[K, n]`; one may occur twice."""
        self._written = rows, self._memory.read(rows)
        for log in self._logs:
            log.append(self._written)

    def log_rows(self) -> list[Rows]:
        """A list that gets the rows that steps overwrite, before they do, until `end_log`."""
        log: list[Rows] = []
        self._logs = [*self._logs, log]
        return log

    def end_log(self, log: list[Rows]) -> None:
        """Add nothing more to a list; any thread may call this."""
        self._logs = [other for other in self._logs if other is not log]

    def copies(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Of these tensors, the copies that hold what was before the step, by the same names."""
        found = {id(t): copy for t, copy in zip(self._tensors, self._before, strict=True)}
        return {name: found[id(t)] for name, t in tensors.items() if id(t) in found}

    def finite(self, loss: Tensor) -> bool:
        """Whether the step led somewhere: its loss and all that it changed are numbers."""
        kept = self._optimiser.state.values() if self._optimiser is not None else ()
        each = [
            loss,
            *(self._tensors[index] for index in self._changed() if index in self._watched),
            *(t for t in kept if t.is_floating_point() and t.device == loss.device),
        ]
        sums = torch.stack([_sum(tensor) for tensor in each])
        return math.isfinite(float(sums.sum())) or bool(sums.isfinite().all())

    @torch.no_grad()
    def undo(self) -> None:
        """Bring everything back to where it was when the step began, if one was."""
        if not self._noted:
            return
        self._copy(self._tensors, self._before)
        if self._optimiser is not None:
            self._optimiser.restore(self._kept)
        if self._written is not None:
            self._memory.write(*self._written)

    def _changed(self) -> list[int]:
        """The tensors, by index, that may differ from what was noted of them."""
        return [
            index
            for index, tensor in enumerate(self._tensors)
            if self._notes <= TRIED or self._seldom.get(index, -1) != tensor._version
        ]

    def _copy(self, to: Sequence[Tensor], of: Sequence[Tensor]) -> None:
        """Copy what changed; from then on, both sides are the same."""
        indices = self._changed()
        torch._foreach_copy_([to[index] for index in indices], [of[index] for index in indices])
        self._seldom = {index: self._tensors[index]._version for index in self._seldom}

    def _try_counters(self) -> None:
        """See whether the last step changed something that was not counted."""
        self._notes += 1
        for index, version in list(self._seldom.items()):
            now, before = self._tensors[index], self._before[index]
            if now._version == version and not torch.equal(now, before):
                del self._seldom[index]


def _sum(tensor: Tensor) -> Tensor:
    """The sum in a type in which that of many small numbers does not overflow."""
    return tensor.sum(dtype=torch.promote_types(tensor.dtype, torch.float32))
