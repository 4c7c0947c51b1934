"""The rows of a memory that steps overwrite, as they were before."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from torch import Tensor

from recollect.train.guard import Rows

Earlier = tuple[np.ndarray, dict[str, Tensor]]  # row numbers [n], and their earlier contents


@final
class RowLog:
    """Collects the contents of memory rows before their first overwrite since it was created.

    One thread may append while another takes what was appended.
    """

    def __init__(self, rows: int) -> None:
        self._known = np.zeros(rows, dtype=bool)
        self._new: list[Earlier] = []

    def append(self, overwritten: Rows, /) -> None:
        """Add rows that are about to be overwritten, except those that were added before."""
        rows = overwritten[0].flatten().cpu().numpy()
        values = {name: value.flatten(0, 1) for name, value in overwritten[1].items()}
        numbers, first = np.unique(rows, return_index=True)
        first = first[~self._known[numbers]]
        if len(first) < len(rows):
            rows, chosen = rows[first], torch.from_numpy(first)
            values = {n: t.index_select(0, chosen.to(t.device)) for n, t in values.items()}
        if len(rows):
            self._known[rows] = True
            self._new.append((rows, values))

    def take(self) -> list[Earlier]:
        """Return what was appended since the last call; no row is returned twice."""
        taken = self._new[:]
        del self._new[: len(taken)]  # the other thread may have appended more
        return taken
