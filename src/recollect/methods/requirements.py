"""What general continual learning asks of a method: the paper's Table 1, from declarations."""

from __future__ import annotations

from recollect.methods.method import Method

__all__ = ["REQUIREMENTS", "requirements"]

REQUIREMENTS = ("constant memory", "no task boundaries", "online learning", "no test time oracle")


def requirements(kind: type[Method]) -> dict[str, bool]:
    """Which of the four requirements a method meets.

    >>> from recollect.methods import PNN, DERpp
    >>> all(requirements(DERpp).values()), any(requirements(PNN).values())
    (True, True)
    >>> [name for name, met in requirements(PNN).items() if met]
    ['online learning']
    """
    met = (
        not (kind.needs.grows or kind.needs.all_data),
        not kind.needs.boundaries,
        not (kind.needs.revisits or kind.needs.all_data),
        not kind.needs.task_id,
    )
    return dict(zip(REQUIREMENTS, met, strict=True))
