"""The names of settings and scores in tables, figures and the report, and the order of names."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["SCORES", "SCORE_TITLES", "SETTINGS", "known_first", "setting_title"]

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


def setting_title(name: str) -> str:
    """The title of a setting; its name, if it is not one of the paper's.

    >>> setting_title("class"), setting_title("odd")
    ('Class-IL', 'odd')
    """
    return SETTINGS.get(name, name)


def known_first(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Names in the order in which they are known, each once; others follow by name.

    >>> known_first(["mine", "b", "a", "b"], ["b", "a", "c"])
    ['b', 'a', 'mine']
    """
    rank = {name: place for place, name in enumerate(known)}
    return sorted(set(names), key=lambda name: (rank.get(name, len(rank)), name))
