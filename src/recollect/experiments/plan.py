"""From what a person asks for to the jobs that do it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import product

from torch import nn

from recollect.errors import InputError
from recollect.experiments import paper
from recollect.methods import Method
from recollect.nets import MLP
from recollect.streams import Benchmark, Stream
from recollect.train import Job, Run

__all__ = ["Network", "Values", "jobs_for", "seeds_from"]

Values = Mapping[str, float | Sequence[float]]
Network = Callable[[], nn.Module] | nn.Module

OWN_DATA = {"lr": 0.1, "bs": 10.0}


def jobs_for(
    stream: Stream,
    kind: type[Method],
    *,
    seeds: Iterable[int],
    benchmark: Benchmark | None = None,
    buffer: int | None = None,
    values: Values | None = None,
    epochs: int | None = None,
    network: Network | None = None,
) -> list[Job]:
    """The jobs for a method with one buffer: every seed with every combination of the values.

    Values that are not given are the paper's for that benchmark and buffer. Rates and weights
    vary within a fleet; batch sizes change its shapes, so each has a fleet of its own.
    """
    seeds = list(seeds)
    _check_seeds(seeds)
    buffer = _checked_buffer(kind, buffer)
    if epochs is not None and epochs < 1:
        raise InputError(f"the number of epochs must be at least 1, not {epochs}")
    axes = _axes(kind, benchmark, buffer, values or {})
    own = kind.hyperparameters()
    jobs = []
    for batch, replay in product(axes.pop("bs"), axes.pop("mbs", [0.0])):
        combinations = [dict(zip(axes, point, strict=True)) for point in product(*axes.values())]
        runs = tuple(
            Run(seed, point["lr"], kind(**{name: point[name] for name in own}))
            for point in combinations
            for seed in seeds
        )
        jobs.append(
            Job(
                stream=stream,
                runs=runs,
                batch=int(batch),
                replay=int(replay),
                buffer=buffer,
                epochs=epochs or (benchmark.epochs if benchmark else 1),
                network=network or partial(MLP, math.prod(stream.shape), stream.classes),
            )
        )
    return jobs


def seeds_from(text: str) -> list[int]:
    """The seeds that a person means: `10` is 0 to 9, `3-5` a range, `3,7` a list.

    >>> seeds_from("3"), seeds_from("3-5"), seeds_from("3,7")
    ([0, 1, 2], [3, 4, 5], [3, 7])
    """
    try:
        if text.isdigit():
            seeds = list(range(int(text)))
        else:
            seeds = []
            for piece in text.split(","):
                first, _, last = piece.partition("-")
                seeds += range(int(first), int(last or first) + 1)
    except ValueError:
        raise InputError(
            f"cannot read the seeds {text!r}: give a number (10), a range (3-5) or a list (3,7)"
        ) from None
    if not seeds:
        raise InputError(f"the seeds {text!r} are none: give at least one")
    return seeds


def _axes(
    kind: type[Method], benchmark: Benchmark | None, buffer: int | None, values: Values
) -> dict[str, list[float]]:
    """The values of every hyper-parameter: given, the paper's, or the benchmark's."""
    names = ["lr", "bs", *(["mbs"] if kind.uses_memory() else []), *kind.hyperparameters()]
    for name in values:
        if name not in names:
            raise InputError(
                f"{kind.title} has no hyper-parameter {name!r} (it has: {', '.join(names)})"
            )
    defaults: dict[str, float] = {n: getattr(kind(), n) for n in kind.hyperparameters()}
    if benchmark is None:
        defaults |= OWN_DATA
    else:
        defaults |= {"bs": benchmark.batch, "mbs": benchmark.replay}
        defaults |= paper.hyperparameters(benchmark.paper, kind.name, buffer)
    chosen = {name: values.get(name, defaults.get(name)) for name in names}
    if chosen.get("mbs", 0) is None:
        chosen["mbs"] = chosen["bs"]
    return {name: _checked_values(name, given) for name, given in chosen.items()}


def _checked_values(name: str, given: float | Sequence[float] | None) -> list[float]:
    if given is None:
        raise InputError(f"the hyper-parameter {name} has no default here: give a value")
    column = [float(v) for v in given] if isinstance(given, Sequence) else [float(given)]
    if not column:
        raise InputError(f"the hyper-parameter {name} was given no value")
    for value in column:
        if name in ("bs", "mbs") and (value != int(value) or value < 1):
            raise InputError(
                f"{name} is a number of examples and must be at least 1, not {value:g}"
            )
        if not math.isfinite(value) or value < 0 or (name == "lr" and value == 0):
            bound = "greater than 0" if name == "lr" else "at least 0"
            raise InputError(f"{name} must be {bound} and finite, not {value:g}")
    return list(dict.fromkeys(column))


def _checked_buffer(kind: type[Method], buffer: int | None) -> int | None:
    if not kind.uses_memory():
        if buffer is not None:
            raise InputError(f"{kind.title} keeps no memory: leave the buffer out")
        return None
    if buffer is None:
        raise InputError(f"{kind.title} needs a memory: give a buffer, such as 200")
    if buffer < 1:
        raise InputError(f"the buffer must hold at least 1 example, not {buffer}")
    return buffer


def _check_seeds(seeds: Sequence[int]) -> None:
    if not seeds:
        raise InputError("there are no seeds: give at least one")
    if len(set(seeds)) != len(seeds):
        raise InputError("a seed is given twice: each makes the same run")
    if min(seeds) < 0:
        raise InputError(f"a seed must be at least 0, not {min(seeds)}")
