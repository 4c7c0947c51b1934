"""What a run remembers: fixed-capacity tensors, and the rules that fill them."""

from recollect.memory.class_ring import ClassRing
from recollect.memory.clock import Clock
from recollect.memory.closest import keep_closest, nearest
from recollect.memory.greedy import Chosen
from recollect.memory.hybrid import Hybrid
from recollect.memory.reservoir import Reservoir
from recollect.memory.ring import TaskRing
from recollect.memory.rule import Rule
from recollect.memory.shares import TaskShares
from recollect.memory.store import Memory, Remembered

__all__ = [
    "Chosen",
    "ClassRing",
    "Clock",
    "Hybrid",
    "Memory",
    "Remembered",
    "Reservoir",
    "Rule",
    "TaskRing",
    "TaskShares",
    "keep_closest",
    "nearest",
]
