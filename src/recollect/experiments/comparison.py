"""Compare two sets of results: paired differences over common seeds, and which settings differ."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from statistics import fmean
from typing import final

from recollect.errors import InputError
from recollect.experiments.apart import FINGERPRINTS, SHOWN
from recollect.experiments.difference import Difference, Differs, as_html, as_text
from recollect.experiments.labels import method_title
from recollect.experiments.matching import described, facts_of, matched
from recollect.experiments.results import Results, Summary, labelled
from recollect.train import Result

__all__ = ["Comparison", "Difference", "Differs", "compare"]

COMPARED = ("accuracy", "forgetting")


@final
@dataclass(frozen=True)
class Comparison:
    """Two configurations, the settings they differ in, and the paired differences of scores."""

    a: Summary
    b: Summary
    differs: tuple[Differs, ...]
    differences: tuple[Difference, ...]
    only_a: tuple[int, ...]
    only_b: tuple[int, ...]

    def __str__(self) -> str:
        """Format as text: both sides, what differs, the table, and a sentence for each score."""
        return "\n".join([*self.heads, as_text(self.differences), *self.sentences])

    def _repr_html_(self) -> str:
        """Format as HTML, for notebooks."""
        heads, words = ("<br>".join(map(escape, each)) for each in (self.heads, self.sentences))
        return f"<p>{heads}</p>{as_html(self.differences)}<p>{words}</p>"

    @property
    def heads(self) -> list[str]:
        """Lines that describe both sides and what differs."""
        lines = [f"{side}: {described(each)}" for side, each in (("A", self.a), ("B", self.b))]
        return [*lines, f"differs: {'; '.join(map(str, self.differs)) or 'nothing'}"]

    @property
    def sentences(self) -> list[str]:
        """One sentence for each score, and the remarks."""
        return [*map(str, self.differences), *self.remarks]

    @property
    def remarks(self) -> list[str]:
        """Warnings about unpaired seeds, different data, and runs that diverged or are outliers."""
        found = [
            f"seeds that only {side} has, not compared: {', '.join(map(str, seeds))}"
            for side, seeds in (("A", self.only_a), ("B", self.only_b))
            if seeds
        ]
        if any(each.name == FINGERPRINTS["stream"] for each in self.differs):
            found.append("the data differ: runs of the same seed did not see the same examples")
        sides = (("A", self.a), ("B", self.b))
        return found + [f"{side}: {each.remarks}" for side, each in sides if each.remarks]


class Comparisons(list[Comparison]):
    """List of comparisons, one for each pair of configurations."""

    def __str__(self) -> str:
        """Format all comparisons as text."""
        return "\n\n".join(map(str, self))

    def __repr__(self) -> str:
        """Format as `str` does, for a prompt."""
        return str(self)

    def _repr_html_(self) -> str:
        """Format all comparisons as HTML, for notebooks."""
        return "<hr>".join(each._repr_html_() for each in self)


def compare(
    a: Iterable[Result] | Summary,
    b: Iterable[Result] | Summary,
    *,
    notice: Callable[[str], None] = warnings.warn,
) -> Comparisons:
    """Compare two sets of results by paired differences over their common seeds.

    `a` and `b` are `Results`, lists of runs, or a `Summary`. Runs that differ only in their seed
    are one configuration, and configurations are never pooled. If one side has a single
    configuration, it is compared with each one of the other side. Otherwise configurations are
    paired by what varies within both sides, such as the buffer, network or data; if this does not
    identify them, that is an error. `notice` receives a line for each one without a partner.

    >>> from recollect import run
    >>> ours, theirs = (run("seq-digits", name, buffer=50, seeds=3) for name in ("derpp", "er"))
    >>> (found,) = compare(ours, theirs)
    >>> [str(each) for each in found.differs][:2]
    ['method DER++ / ER', 'lr 0.03 / 0.01']
    >>> found.differences[0].setting, len(found.differences[0].differences)
    ('class', 3)
    """
    sides = [Results(_runs(each, name)).summaries() for each, name in ((a, "A"), (b, "B"))]
    for name, found in zip("AB", sides, strict=True):
        if not found:
            raise InputError(f"{name} has no runs: give at least one")
    both = iter(labelled([each for found in sides for each in found]))
    sides = [[next(both) for _ in found] for found in sides]
    ours, theirs = (_by_stream(found) for found in sides)
    common = [key for key in ours if key in theirs]
    if not common:
        names = (", ".join(dict.fromkeys(map(_stream, found))) for found in (ours, theirs))
        raise InputError("A and B have no stream in common: A has {}, B has {}".format(*names))
    pairs = [pair for key in common for pair in matched(ours[key], theirs[key])]
    for name, found, at in zip("AB", sides, (0, 1), strict=True):
        for each in found:
            if not any(each is pair[at] for pair in pairs):
                notice(f"not compared, as only {name} has it: {described(each)}")
    return Comparisons(_pair(x, y) for x, y in pairs)


def _runs(side: object, name: str) -> list[Result]:
    if isinstance(side, Summary):
        return list(side.runs)
    wanted = f"{name} must be Results, a list of runs or a Summary"
    if isinstance(side, str | PathLike):
        raise InputError(f"{wanted}, not a file: pass recollect.Results.load({str(side)!r})")
    if not isinstance(side, Iterable):
        raise InputError(f"{wanted}, not {type(side).__name__}")
    runs: list[Result] = []
    for each in side:
        if not isinstance(each, Result):
            raise InputError(f"{wanted}, not a list with {type(each).__name__}")
        runs.append(each)
    return runs


def _by_stream(found: Sequence[Summary]) -> dict[tuple[str, bool], list[Summary]]:
    groups: dict[tuple[str, bool], list[Summary]] = {}
    for each in found:
        groups.setdefault((each.first.benchmark, each.first.validation), []).append(each)
    return groups


def _stream(key: tuple[str, bool]) -> str:
    return key[0] + (" (validation)" if key[1] else "")


def _pair(a: Summary, b: Summary) -> Comparison:
    runs_a, runs_b = _by_seed(a, "A"), _by_seed(b, "B")
    seeds = [seed for seed in sorted(runs_a) if seed in runs_b]
    if not seeds:
        both = " and ".join(", ".join(map(str, sorted(runs))) for runs in (runs_a, runs_b))
        raise InputError(f"A and B have no seed in common ({both}): train both with the same seeds")
    differs = _differs(a.first, b.first)
    found = []
    for setting in [each for each in a.settings if each in b.settings]:
        for score in COMPARED:
            pairs = {
                seed: (x, y)
                for seed in seeds
                if _is_number(x := getattr(runs_a[seed], score).get(setting))
                and _is_number(y := getattr(runs_b[seed], score).get(setting))
            }
            if pairs:
                xs, ys = zip(*pairs.values(), strict=True)
                each = {seed: x - y for seed, (x, y) in pairs.items()}
                found.append(
                    Difference(setting, score, fmean(xs), fmean(ys), each, _names(a, b, differs))
                )
    only_a, only_b = (tuple(sorted(set(x) - set(y))) for x, y in
                      ((runs_a, runs_b), (runs_b, runs_a)))  # fmt: skip
    return Comparison(a, b, tuple(differs), tuple(found), only_a, only_b)


def _is_number(score: float | None) -> bool:
    """Return True for a finite score; the error of a diverged regression run is infinite."""
    return score is not None and math.isfinite(score)


def _by_seed(summary: Summary, side: str) -> dict[int, Result]:
    found: dict[int, Result] = {}
    for run in summary.runs:
        before = found.setdefault(run.seed, run)
        if before.accuracy != run.accuracy:
            raise InputError(
                f"{side} has seed {run.seed} twice, with different accuracies: remove one of them"
            )
    return found


def _differs(a: Result, b: Result) -> list[Differs]:
    sides = []
    for run in (a, b):
        facts = facts_of(run) | {"method": method_title(run)}
        # Two methods always differ in code; for one method, it means that an equation changed.
        parts = [name for name in FINGERPRINTS if name != "code" or a.method == b.method]
        shown = {FINGERPRINTS[name]: _shown(run, name) for name in parts}
        if run.network_class:
            shown["network"] = f"{run.network_class} {shown['network']}"
        sides.append({name: "" if v is None else str(v) for name, v in (facts | shown).items()})
    names = dict.fromkeys([*sides[0], *sides[1]])
    every = [Differs(name, *(side.get(name, "") for side in sides)) for name in names]
    return [each for each in every if each.a != each.b]


def _shown(run: Result, part: str) -> str:
    value: str = getattr(run.identity, part)
    return value if part in ("optimiser", "precision") else value[:SHOWN]


def _names(a: Summary, b: Summary, differs: Sequence[Differs]) -> tuple[str, str]:
    """Names of the two sides for use in sentences."""
    titles = method_title(a.first), method_title(b.first)
    if titles[0] != titles[1]:
        return titles
    if len(differs) == 1:
        (only,) = differs
        values = (only.a or "-", only.b or "-")
        first, second = (f"{titles[0]} with {only.name} {value}" for value in values)
        return first, second
    return "A", "B"
