"""What tells configurations with the same names apart: network, data, code, epochs, split.

Every table, export, report and comparison uses these words. Network, data and precision are named
wherever a benchmark has several of them, whatever the hyper-parameters: two rows that differ in
their learning rate and their network would otherwise look like an effect of the learning rate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from recollect.streams import BENCHMARKS
from recollect.train import Result
from recollect.train.identity import UNKNOWN

SHOWN = 8  # characters of a fingerprint
FINGERPRINTS = {
    "stream": "data", "network": "network", "code": "code", "precision": "precision",
    "optimiser": "optimiser",
}  # fmt: skip
OF_BENCHMARK = ("stream", "network")  # the parts of a variant


def differences(runs: Iterable[Result]) -> Callable[[Result], str]:
    """Return a function that states what tells the configuration of a run from the others.

    Network, data and precision are stated if runs on the same benchmark and split have several.
    Code is stated if runs of the same method, buffer, network and data have several, and any other
    part if nothing else distinguishes two configurations.
    """
    found = list({run.identity.key_without("seed"): run for run in runs}.values())
    wide, rows, alike = _Groups(found, _split), _Groups(found, _row), _Groups(found, _names)

    def difference(run: Result) -> str:
        parts = wide.several(run, (*OF_BENCHMARK, "precision"))
        said = [apart(run, wide.of(run), parts)]
        same = [each for each in rows.of(run) if _agree(each, run, OF_BENCHMARK)]
        if len({each.code for each in same} - {UNKNOWN}) > 1:
            parts = [*parts, "code"]
            said.append(apart(run, same, ["code"]))
        left = [each for each in alike.of(run) if _agree(each, run, parts)]
        said.append(apart(run, left, [part for part in FINGERPRINTS if part not in parts]))
        return ", ".join(filter(None, said))

    return difference


def variants(runs: Iterable[Result]) -> Callable[[Result], str]:
    """Return a function that names the network and data of a run, if its benchmark has several.

    The name is empty for benchmarks with one network and one data set. Runs from old files, which
    have no fingerprints, are a variant of their own only next to other variants.
    """
    groups = _Groups(runs, _split)
    return lambda run: apart(run, groups.of(run), groups.several(run, OF_BENCHMARK))


def apart(run: Result, alike: Sequence[Result], among: Iterable[str] = FINGERPRINTS) -> str:
    """Describe how a run differs from others, by as few fingerprints as needed.

    Networks of different classes are named in any case. Those of one class may differ only because
    the data have another shape, so they are named only among runs on the same data.
    """
    parts, left = [], list(alike)
    for name in among:
        value = getattr(run.identity, name)
        others = [each for each in left if getattr(each.identity, name) != value]
        if name == "network" and not others:
            others = [each for each in alike if each.network_class != run.network_class]
        if others:
            parts.append(f"{FINGERPRINTS[name]} {_shown(run, name, others)}")
        left = [each for each in left if getattr(each.identity, name) == value]
    return ", ".join(parts)


def optimiser_words(run: Result) -> list[str]:
    """Split the stored description of optimiser and schedule into words for a table.

    >>> from types import SimpleNamespace
    >>> optimiser_words(SimpleNamespace(optimiser="Adam, cosine per task"))
    ['optimiser Adam', 'schedule cosine per task']
    """
    name, _, schedule = run.optimiser.partition(", ")
    said = [f"optimiser {'SGD' if name == 'sgd' else name}"]
    return [*said, f"schedule {schedule}"] if schedule not in ("", "constant") else said


def chosen_words(run: Result, among: Iterable[Result]) -> tuple[str, ...]:
    """Describe epochs and split if they are not the usual ones, or vary on the same benchmark.

    >>> from dataclasses import replace
    >>> from recollect import run
    >>> (plain,) = run("seq-digits", "sgd", seeds=1)
    >>> longer = replace(plain, epochs=2, validation=True)
    >>> chosen_words(plain, [plain]), chosen_words(longer, [longer])
    ((), ('epochs 2', 'validation split'))
    """
    others = [each for each in among if each.benchmark == run.benchmark]
    words = []
    if run.epochs != usual_epochs(run) or any(each.epochs != run.epochs for each in others):
        words.append(f"epochs {run.epochs}")
    if run.validation or any(each.validation for each in others):
        words.append("validation split" if run.validation else "test set")
    return tuple(words)


def usual_epochs(run: Result) -> int:
    """Return the epochs of a run's benchmark; those of a stream of one's own are 1."""
    known = BENCHMARKS.get(run.benchmark)
    return known.epochs if known else 1


class _Groups:
    """Runs grouped by a key, with one run for every identity."""

    def __init__(self, runs: Iterable[Result], key: Callable[[Result], object]) -> None:
        self._key = key
        self._found: dict[object, dict[object, Result]] = {}
        for run in runs:
            parts = tuple(getattr(run.identity, part) for part in FINGERPRINTS)
            self._found.setdefault(key(run), {}).setdefault((parts, run.network_class), run)

    def of(self, run: Result) -> list[Result]:
        return [*self._found.get(self._key(run), {}).values()]

    def several(self, run: Result, parts: Iterable[str]) -> list[str]:
        """Return the parts that have several known values in the group of a run."""
        runs = self.of(run)
        return [
            part for part in parts
            if len({getattr(each.identity, part) for each in runs} - {UNKNOWN}) > 1
        ]  # fmt: skip


def _split(run: Result) -> object:
    return run.benchmark, run.validation


def _row(run: Result) -> object:
    return run.benchmark, run.validation, run.epochs, run.method, run.buffer


def _names(run: Result) -> object:
    return run.identity.key_without("seed", *FINGERPRINTS)


def _agree(one: Result, other: Result, parts: Iterable[str]) -> bool:
    return all(getattr(one.identity, part) == getattr(other.identity, part) for part in parts)


def _shown(run: Result, name: str, others: Sequence[Result]) -> str:
    value: str = getattr(run.identity, name)
    if name == "optimiser":
        words = optimiser_words(run)
        if any(optimiser_words(each) == words for each in others):
            return value  # stored by an older version, which had two names for the same one
        return ", ".join(words).removeprefix("optimiser ")
    shown = value[:SHOWN] or "unknown"
    if name != "network":
        return shown
    named = run.network_class
    if value and not any(each.network_class == named for each in others if each.network):
        return named or "default"
    return f"{named} {shown}".lstrip()
