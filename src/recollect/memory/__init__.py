"""What a run remembers: fixed-capacity tensors, and the rules that fill them."""

from recollect.memory.clock import Clock
from recollect.memory.greedy import Chosen
from recollect.memory.reservoir import Reservoir
from recollect.memory.ring import TaskRing
from recollect.memory.rule import Rule
from recollect.memory.shares import TaskShares
from recollect.memory.store import Memory, Remembered

__all__ = ["Chosen", "Clock", "Memory", "Remembered", "Reservoir", "Rule", "TaskRing", "TaskShares"]
