"""Paired differences of scores between two configurations: statistics, sentences and a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import NamedTuple, final

from recollect.experiments.labels import (
    counted,
    decimals,
    score_title,
    setting_title,
)
from recollect.experiments.paired import interval, p_words, sign_flip_p, t_p
from recollect.train.measures import LOWER_IS_BETTER, PERCENT

LEVEL = 0.05
NOTHING = 1e-9  # a mean difference that is rounding
HEADS = ("setting", "score", "A", "B", "A - B", "95 % CI", "p (t)", "p (sign flips)", "seeds")
TEXTS = 2  # leading columns of text, aligned left; the others are numbers, aligned right


class Differs(NamedTuple):
    """Setting that differs between the two sides, with its value on each side."""

    name: str
    a: str
    b: str

    def __str__(self) -> str:
        return f"{self.name} {self.a or '-'} / {self.b or '-'}"


@final
@dataclass(frozen=True)
class Difference:
    """Paired difference A - B of a score in a setting, over the common seeds.

    `interval` is the 95 % confidence interval of the mean difference, `p` the p-value of the paired
    t test, and `p_sign_flip` that of the exact sign-flip permutation test (up to 16 pairs). They
    are None if there are too few pairs, or no variance, to compute them.
    """

    setting: str
    score: str
    a: float
    b: float
    differences: Mapping[int, float]
    names: tuple[str, str]

    @property
    def mean(self) -> float:
        """Mean difference: A's mean score minus B's."""
        return self.a - self.b

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 % confidence interval of the mean difference."""
        return interval([*self.differences.values()])

    @property
    def p(self) -> float | None:
        """Two-sided p-value of the paired t test."""
        return t_p([*self.differences.values()])

    @property
    def p_sign_flip(self) -> float | None:
        """Two-sided p-value of the exact sign-flip permutation test."""
        return sign_flip_p([*self.differences.values()])

    def __str__(self) -> str:
        """Describe the difference in a sentence."""
        forgets = self.score == "forgetting"
        error = self.setting in LOWER_IS_BETTER and self.score not in ("fwt", "bwt")
        first = (self.mean <= 0) if forgets or error else (self.mean >= 0)
        better, other = self.names if first else self.names[::-1]
        n = len(self.differences)
        pairs = counted(n, "paired seed")
        where = setting_title(self.setting)
        if not any(self.differences.values()):
            alike = "forget the same" if forgets else "are equal"
            return f"{where}: {self.names[0]} and {self.names[1]} {alike} in all of {pairs}"
        found = [pairs]
        p = self.p if self.p is not None else self.p_sign_flip
        if p is not None and n > 1:
            found.insert(0, f"p {p_words(p)}")
        if bounds := self.interval:
            sign = -1 if self.mean < 0 else 1
            low, high = sorted(sign * bound for bound in bounds)
            clear = self.setting in PERCENT and min(abs(low), abs(high)) >= 0.05
            digits = 1 if clear else 3  # enough digits to show the sign
            found.insert(0, f"95 % CI [{low:.{digits}f}, {high:.{digits}f}]")
        size = abs(self.mean)
        shown = f"{size:.1f}" if size >= 0.05 else f"{size:.1g}"  # never 0.0
        amount = f"{shown} points" if self.setting in PERCENT else f"{size:.3g}"
        verb = f"forgets {amount} less" if forgets else f"is {amount} better"
        doubt = "" if p is not None and p < LEVEL else "; not a significant difference"
        doubt = "; one seed cannot be tested" if n == 1 else doubt
        said = f"{where}: {better} {verb} than {other}"
        if size < NOTHING:
            said = f"{where}: {better} and {other} {'forget the same' if forgets else 'are equal'} "
            said += "on average"
        return ", ".join([said, *found]) + doubt


def as_text(found: Iterable[Difference]) -> str:
    """Format differences as a plain-text table, one row each."""
    rows = [_cells(each) for each in found]
    widths = [max(map(len, column)) for column in zip(HEADS, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        both = enumerate(zip(cells, widths, strict=True))
        return "  ".join(
            cell.ljust(width) if at < TEXTS else cell.rjust(width) for at, (cell, width) in both
        )

    return "\n".join([line(HEADS), "  ".join("-" * width for width in widths), *map(line, rows)])


def as_html(found: Iterable[Difference]) -> str:
    """Format differences as an HTML table, one row each."""

    def line(tag: str, cells: Sequence[str]) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    body = "".join(line("td", _cells(each)) for each in found)
    return f"<table><thead>{line('th', HEADS)}</thead><tbody>{body}</tbody></table>"


def _cells(each: Difference) -> tuple[str, ...]:
    bounds, ps = each.interval, (each.p, each.p_sign_flip)
    digits = decimals(max(abs(each.a), abs(each.b)), each.setting)
    return (
        setting_title(each.setting),
        score_title(each.score, each.setting),
        f"{each.a:.{digits}f}",
        f"{each.b:.{digits}f}",
        f"{each.mean:+.{digits}f}",
        f"[{bounds[0]:+.{digits}f}, {bounds[1]:+.{digits}f}]" if bounds else "-",
        *("-" if p is None else p_words(p).removeprefix("= ") for p in ps),
        str(len(each.differences)),
    )
