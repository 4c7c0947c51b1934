"""Pair the configurations of two sides by what varies within both, such as the buffer."""

from __future__ import annotations

from collections.abc import Sequence

from recollect.errors import InputError
from recollect.experiments.apart import SHOWN, optimiser_words
from recollect.experiments.labels import method_title
from recollect.experiments.results import Summary
from recollect.train import Result

# What is chosen for a set of runs. Hyper-parameters are often tuned for each of these.
CHOSEN = ("buffer", "epochs", "data", "network", "precision", "optimiser", "schedule")

Pair = tuple[Summary, Summary]
Facts = dict[str, object]


def matched(a: Sequence[Summary], b: Sequence[Summary]) -> list[Pair]:
    """Pair configurations on one stream; each of several is paired with a single one.

    Otherwise they are paired by what varies within both sides and has common values: by the buffer,
    network and other choices if these identify every configuration, else by hyper-parameters too.
    """
    if len(a) == 1 or len(b) == 1:
        return [(x, y) for x in a for y in b]
    facts = [[_identified(each.first) for each in side] for side in (a, b)]
    everywhere = set.intersection(*(set(each) for side in facts for each in side))
    vary = [
        name
        for name in sorted(everywhere)
        if all(len({each[name] for each in side}) > 1 for side in facts)
    ]
    ours, theirs = facts
    common = [name for name in vary if {each[name] for each in ours} & {e[name] for e in theirs}]
    chosen = [name for name in common if name in CHOSEN]
    foreign = [name for name in ("buffer", "epochs") if name in vary and name not in common]
    if pairs := _paired(a, b, facts, chosen):
        return pairs
    if foreign:
        raise _nothing_in_common(foreign)
    if pairs := _paired(a, b, facts, common):
        return pairs
    raise _not_identified(a, b, facts, common)


def _paired(
    a: Sequence[Summary], b: Sequence[Summary], facts: Sequence[Sequence[Facts]], by: Sequence[str]
) -> list[Pair]:
    """Pair configurations with equal facts; none if these do not identify every configuration."""
    keys = [[tuple(each[name] for name in by) for each in side] for side in facts]
    if any(len({*side}) < len(side) for side in keys):
        return []
    partners = dict(zip(keys[1], b, strict=True))
    pairs = [(x, partners[key]) for key, x in zip(keys[0], a, strict=True) if key in partners]
    if not pairs:
        raise _nothing_in_common(by)
    return pairs


def facts_of(run: Result) -> Facts:
    """Return the method, buffer, epochs and hyper-parameters of a run."""
    facts = {name: f"{value:g}" for name, value in run.hyperparameters.items()}
    return {"method": run.method, "buffer": run.buffer, "epochs": run.epochs, **facts}


def described(summary: Summary) -> str:
    """Describe a configuration in a line."""
    run = summary.first
    buffer = "" if run.buffer is None else f" buffer {run.buffer}"
    title = method_title(run)
    return f"{run.benchmark} {title}{buffer} ({summary.seeds}; {summary.values})"


def _identified(run: Result) -> Facts:
    facts = {name: value for name, value in facts_of(run).items() if name != "method"}
    parts = {"data": run.stream, "network": run.network, "code": run.code}
    chosen = {"schedule": "constant", **dict(each.split(" ", 1) for each in optimiser_words(run))}
    return {**facts, **parts, **chosen, "precision": run.identity.precision}


def _nothing_in_common(names: Sequence[str]) -> InputError:
    return InputError(
        f"A and B have no value of {', '.join(names)} in common: compare runs with the same values"
    )


def _not_identified(
    a: Sequence[Summary],
    b: Sequence[Summary],
    facts: Sequence[Sequence[Facts]],
    common: Sequence[str],
) -> InputError:
    name, side, found = next(
        (name, side, found)
        for name, side, found in zip("AB", (a, b), facts, strict=True)
        if len({tuple(each[name] for name in common) for each in found}) < len(found)
    )
    example = _example([each.first for each in side], found)
    listed = "; ".join(described(each) for each in side)
    return InputError(
        f"cannot pair the {len(side)} configurations of {name} with the other side: no value that "
        f"varies on both sides identifies them. Select one of them{example} ({listed})"
    )


def _example(runs: Sequence[Result], found: Sequence[Facts]) -> str:
    """Name the value of the first configuration that differs from most of the others."""
    methods = [{"method": run.method, **each} for run, each in zip(runs, found, strict=True)]
    names = dict.fromkeys(["method", *(name for name in found[0] if name != "code"), "code"])
    differing = [name for name in names if len({each.get(name) for each in methods}) > 1]
    if not differing:
        return ""
    name = max(differing, key=lambda name: len({each.get(name) for each in methods}))
    return f", for example with {name}={_shown(runs, methods, name)}"


def _shown(runs: Sequence[Result], found: Sequence[Facts], name: str) -> object:
    value, named = found[0].get(name), runs[0].network_class
    alike = [run for run in runs if run.network_class == named]
    if name == "network" and named and all(run.network == value for run in alike):
        return named
    if name in ("data", "network", "code"):
        return str(value)[:SHOWN]
    return "-" if value is None else value
