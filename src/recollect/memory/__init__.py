"""What a run remembers: fixed-capacity tensors, and the rules that fill them."""

from recollect.memory.reservoir import Reservoir
from recollect.memory.store import Memory, Remembered

__all__ = ["Memory", "Remembered", "Reservoir"]
