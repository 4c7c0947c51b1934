"""The colour, marker, line and title of each method, the same in every figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from recollect.experiments.figures.task_end_logits import DERAtEnds, DERppAtEnds
from recollect.methods import title_of as known_title

__all__ = ["STYLES", "Style", "style_of", "title_of"]


@final
@dataclass(frozen=True)
class Style:
    """The colour, marker and line of a method."""

    colour: str
    marker: str = "o"
    line: str = "-"


STYLES = {
    "joint": Style("#222222", "_", ":"),
    "sgd": Style("#8a8a8a", "_", "--"),
    "oewc": Style("#6b5b4d", "s"),
    "ewc": Style("#a8978a", "s"),
    "si": Style("#8d99ae", "D"),
    "lwf": Style("#3d5a80", "^"),
    "pc": Style("#9a8c98", "v"),
    "pnn": Style("#22223b", "P"),
    "packnet": Style("#4a4e69", "X"),
    "hat": Style("#8c7aa9", "*"),
    "er": Style("#1f6fb4"),
    "mer": Style("#5fb0e5", "v"),
    "gem": Style("#1b7f4b", "s"),
    "agem": Style("#86c06c", "D"),
    "agem-r": Style("#86c06c", "D", "--"),
    "icarl": Style("#7b3fb0", "^"),
    "fdr": Style("#d770ad", "P"),
    "gss": Style("#8c5a3c", "X"),
    "hal": Style("#b59b00", "h"),
    "der": Style("#f28e2b", "s"),
    "derpp": Style("#c1121f"),
    "er-ring": Style("#17a2b8", "s"),
    "er-kmeans": Style("#0b525b", "^"),
    "er-mof": Style("#6a6fd1", "v"),
    "er-hybrid": Style("#9bb8d8", "D", "--"),
    "der-at-ends": Style("#f28e2b", "s", "--"),
    "derpp-at-ends": Style("#c1121f", "o", "--"),
}

TITLES = {kind.name: kind.title for kind in (DERAtEnds, DERppAtEnds)}


def style_of(method: str) -> Style:
    """The style of a method; methods without one are black.

    >>> style_of("derpp").colour == style_of("derpp-at-ends").colour, style_of("mine").colour
    (True, '#000000')
    """
    return STYLES.get(method, Style("#000000"))


def title_of(method: str) -> str:
    """The title of a method in a figure.

    >>> title_of("derpp"), title_of("der-at-ends"), title_of("mine")
    ('DER++', 'DER, logits at task ends', 'mine')
    """
    return TITLES.get(method) or known_title(method)
