"""What settings and scores are called, wherever they are shown."""

from __future__ import annotations

__all__ = ["SCORES", "SCORE_TITLES", "SETTINGS"]

# In the order in which they are shown.
SETTINGS = {
    "class": "Class-IL",
    "task": "Task-IL",
    "domain": "Domain-IL",
    "general": "General CL",
}

SCORES = {"accuracy": "accuracy", "fwt": "FWT", "bwt": "BWT", "forgetting": "forgetting"}

SCORE_TITLES = {
    "accuracy": "accuracy after the last task",
    "fwt": "forward transfer",
    "bwt": "backward transfer",
    "forgetting": "forgetting",
}
