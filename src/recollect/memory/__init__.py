"""The replay memory: fixed-capacity buffers, and the policies that fill them."""

from recollect.memory.balanced import Balanced
from recollect.memory.by_features import keep_closest, nearest
from recollect.memory.class_ring import ClassRing, Hybrid
from recollect.memory.holes import filled_slots, interchangeable
from recollect.memory.memory import Memory, Stored
from recollect.memory.policy import Arrivals, Clock, Drawn, Policy, last_in_slot
from recollect.memory.reservoir import Chosen, Reservoir, without_replacement
from recollect.memory.task_ring import TaskRing, TaskShares

__all__ = [
    "Arrivals",
    "Balanced",
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
    "filled_slots",
    "interchangeable",
    "keep_closest",
    "last_in_slot",
    "nearest",
    "without_replacement",
]
