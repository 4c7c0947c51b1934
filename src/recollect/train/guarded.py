"""Steps that can be undone: the memory is written only once the result is known to be finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import final

import torch
from torch import Tensor

from recollect.core.network import Network
from recollect.errors import DivergedError
from recollect.memory import Memory
from recollect.train.fixed_inputs import Inputs, sent
from recollect.train.guard import SURE, Guard
from recollect.train.recorded import Recorded

LOSS, ROWS, NUMBERS, SCORES, OLD = "loss", "rows", "numbers", "scores", "old "
DIVERGED = "the loss or the weights are no longer finite"

Found = dict[str, Tensor]


@final
class GuardedSteps:
    """Takes steps under a guard, each in two parts: one that is checked, and the memory's writes.

    If the steps are `recorded`, the first part also computes everything that the host needs to
    check it, the old contents of the rows that the second part overwrites, and, if requested, the
    `scores` of the batch before the step, `[K, B, C]`. The host reads all of that in one transfer.
    The first of the inputs is the batch, "x"; inputs may lie on the host.

    Args:
        find: Changes the state; returns the loss, and what is to be written.
        write: Writes it to the memory, given the inputs and what `find` returned.
        rows: Returns the rows `[K, n]` that `write` overwrites, given the same.
        stores: Whether there is anything to write, given the same; decided without the device.
        scores: Computes the scores of a batch without changing anything.
        memory: The memory.
        guard: Restores the state if a step fails.
        network: The network.
    """

    def __init__(
        self,
        find: Callable[[Inputs], Found],
        write: Callable[[Inputs, Found], None],
        rows: Callable[[Inputs, Found], Tensor],
        stores: Callable[[Inputs, Found], bool],
        scores: Callable[[Tensor], Tensor],
        memory: Memory,
        guard: Guard,
        network: Network,
    ) -> None:
        self._find, self._write, self._rows, self._stores = find, write, rows, stores
        self._scores, self._memory, self._guard, self._network = scores, memory, guard, network
        self._scored = False
        self.scores: Tensor | None = None
        self.recorded: Recorded | None = None

    def record(self, title: str) -> None:
        """Record steps from now on; `title` begins a warning if that fails."""
        module, device = self._network.module, self._network.device
        self.recorded = Recorded(self._noted, self._write, module, device, title, "step")

    def __call__(
        self, kind: Hashable, inputs: Inputs, scored: bool, meanwhile: Callable[[], None]
    ) -> Tensor:
        """Take a step, and return its loss `[K]`.

        Args:
            kind: Everything that the step depends on besides tensors.
            inputs: The inputs of `find`.
            scored: Whether to compute `scores`, if the steps are recorded.
            meanwhile: Work for the host while the device computes.
        """
        self.scores = None
        if self.recorded is None:
            return self._eager(sent(inputs, self._network.device), inputs, meanwhile)
        self._scored = scored
        found = self.recorded((kind, scored), inputs)
        meanwhile()
        loss = self._checked(found)
        if self._stores(inputs, found):
            old = {n.removeprefix(OLD): t for n, t in found.items() if n.startswith(OLD)}
            self._guard.note_rows(found[ROWS], old)
            self.recorded.follow()
        return loss

    def _eager(self, inputs: Inputs, planned: Inputs, meanwhile: Callable[[], None]) -> Tensor:
        found = self._find(inputs)
        meanwhile()
        if not self._guard.finite(found[LOSS]):
            raise DivergedError(DIVERGED)
        if self._stores(planned, found):
            self._guard.note_rows(self._rows(inputs, found))
            self._write(inputs, found)
        return found[LOSS]

    def _noted(self, inputs: Inputs) -> Found:
        """The recorded part of a step."""
        scores = self._scores(inputs["x"]) if self._scored else None
        found = self._find(inputs)
        self._guard.expect_uncounted()
        found = {name: tensor.detach() for name, tensor in found.items()}
        numbers = self._guard.numbers(found[LOSS])
        if scores is not None:
            found[SCORES] = scores
            numbers = torch.cat([numbers, scores.flatten().double()])
        rows = self._rows(inputs, found)
        old = {OLD + name: tensor for name, tensor in self._memory.read(rows).items()}
        return found | old | {ROWS: rows, NUMBERS: numbers}

    def _checked(self, found: Found) -> Tensor:
        """Check the recorded part, and return the loss; synchronises with the device once."""
        loss, numbers = found[LOSS], found[NUMBERS].cpu().numpy()  # few operations: each is slow
        if SCORES in found:
            like = found[SCORES]
            numbers, scores = numbers[: -like.numel()], numbers[-like.numel() :]
            self.scores = torch.from_numpy(scores).to(like.dtype).view(like.shape)
        count, each = loss.numel(), numbers.tolist()
        sure = all(map(math.isfinite, each[:count])) and all(total < SURE for total in each[count:])
        if not sure and not self._guard.finite(loss):
            raise DivergedError(DIVERGED)
        return torch.tensor(each[:count], dtype=loss.dtype).view(loss.shape)
