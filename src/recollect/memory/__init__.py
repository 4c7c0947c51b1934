"""The replay memory: fixed-capacity tensors, and the policies that fill them."""

from recollect.memory.chosen import Chosen
from recollect.memory.class_ring import ClassRing
from recollect.memory.clock import Clock
from recollect.memory.closest import keep_closest, nearest
from recollect.memory.hybrid import Hybrid
from recollect.memory.memory import Memory, Stored
from recollect.memory.policy import Arrivals, Drawn, Policy, last_in_slot
from recollect.memory.reservoir import Reservoir, without_replacement
from recollect.memory.task_ring import TaskRing
from recollect.memory.task_shares import TaskShares

__all__ = [
    "Arrivals",
    "Chosen",
    "ClassRing",
    "Clock",
    "Drawn",
    "Hybrid",
    "Memory",
    "Policy",
    "Reservoir",
    "Stored",
    "TaskRing",
    "TaskShares",
    "keep_closest",
    "last_in_slot",
    "nearest",
    "without_replacement",
]
