"""Read a replay memory as it was at one step, while later steps overwrite it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

import numpy as np
import torch
from torch import Tensor

from recollect.files import CHUNK
from recollect.learner.saving.row_log import RowLog
from recollect.memory import Memory
from recollect.train.guard import Guard


@final
class MemoryImage:
    """The tensors of a memory between two steps, for another thread to read in parts.

    No copy of the memory is made. Steps log the rows that they overwrite until `close` is called,
    and these are restored in each part after it was read.
    """

    def __init__(self, memory: Memory, guard: Guard) -> None:
        self.tensors = dict(memory.tensors)
        self._guard, self._log = guard, RowLog(memory.spare + 1)
        guard.log_rows(self._log)
        self._place = np.full(memory.spare + 1, -1)  # of the earlier contents of each row
        self._earlier: dict[str, Tensor] = {}
        self._count = 0

    def parts(self, name: str) -> Iterator[Tensor]:
        """Yield the rows of a tensor, some at a time; the next ones overwrite them."""
        tensor = self.tensors[name]
        rows = max(1, CHUNK // max(1, tensor[0].numel() * tensor.element_size()))
        buffer = torch.empty_like(tensor[:rows], device="cpu")
        for start in range(0, len(tensor), rows):
            stored = tensor[start : start + rows]
            part = buffer[: len(stored)].copy_(stored)
            self._restore(name, start, part)
            yield part

    def close(self) -> None:
        """End the log, and free its memory; any thread may call this."""
        self._guard.end_log(self._log)
        self._log.take()
        self._earlier = {}

    def _restore(self, name: str, start: int, part: Tensor) -> None:
        """Restore the rows from `start` on that steps overwrote before `part` was copied."""
        if self.tensors[name].is_cuda:
            torch.cuda.synchronize(self.tensors[name].device)  # steps may use another stream
        self._collect()
        places = self._place[start : start + len(part)]
        rows = np.flatnonzero(places >= 0)
        if len(rows):
            earlier = self._earlier[name].index_select(0, torch.from_numpy(places[rows]))
            part.index_copy_(0, torch.from_numpy(rows), earlier)

    def _collect(self) -> None:
        new = self._log.take()
        if not new:
            return
        if not self._earlier:
            # Large enough for all rows, but the system provides memory only for those written to.
            self._earlier = {n: torch.empty_like(t, device="cpu") for n, t in self.tensors.items()}
        rows, first = np.concatenate([rows for rows, _ in new]), self._count
        self._count += len(rows)
        for name, tensor in self._earlier.items():
            torch.cat([values[name].cpu() for _, values in new], out=tensor[first : self._count])
        self._place[rows] = np.arange(first, self._count)
