"""Train a method on a benchmark: the researcher's one call."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from recollect.errors import InputError
from recollect.experiments.plan import Network, plan
from recollect.experiments.results import Results
from recollect.experiments.values import checked_kind, checkpoints_in
from recollect.methods import Method
from recollect.methods import hyperparameters as hyperparameters_of
from recollect.methods import method as method_named
from recollect.streams import Stream
from recollect.streams import benchmark as benchmark_named
from recollect.train import device_named, train_all

__all__ = ["run"]


def run(
    benchmark: str | Stream,
    method: str | Method | type[Method],
    *,
    buffer: int | None = None,
    seeds: int | Iterable[int] = 10,
    epochs: int | None = None,
    network: Network | None = None,
    validation: bool = False,
    data_dir: Path | str | None = None,
    workers: int | None = None,
    device: str = "auto",
    full_precision: bool = False,
    checkpoint: Path | str | None = None,
    time_limit: float | None = None,
    **hyperparameters: float | Iterable[float],
) -> Results:
    """Train a method on a benchmark, all seeds (and all given values) as one fleet.

    `benchmark` is a name or a stream of your own (`recollect.from_arrays`); `method` a name, a
    class, or an instance, whose hyper-parameters are then used. What is not given is the paper's
    choice for that benchmark and buffer. A hyper-parameter may be a list: the fleet then spans
    the grid.

    `device` is a GPU if there is one; there, convolutional networks compute in bfloat16 unless
    `full_precision`. A long run saves its state into the folder `checkpoint` every two minutes,
    and the same call continues from it; after `time_limit` seconds it raises `TimeUp`.

    >>> results = run("seq-digits", "derpp", buffer=50, seeds=2, lr=[0.03, 0.1])
    >>> [(r.seed, r.hyperparameters["lr"]) for r in results]
    [(0, 0.03), (1, 0.03), (0, 0.1), (1, 0.1)]
    >>> results[0].accuracy["class"] > 30
    True
    """
    if isinstance(method, Method):
        kind = checked_kind(type(method))
        own = {name: float(getattr(method, name)) for name in hyperparameters_of(kind)}
        hyperparameters = {**own, **hyperparameters}
    else:
        kind = method_named(method) if isinstance(method, str) else checked_kind(method)
    place = device_named(device)
    saving = checkpoints_in(checkpoint, time_limit)
    known = benchmark_named(benchmark) if isinstance(benchmark, str) else None
    if known is None and not hasattr(benchmark, "pick"):
        raise InputError(
            f"the benchmark must be a name or a stream, such as recollect.from_arrays(x, y) makes, "
            f"not a {type(benchmark).__name__}"
        )
    if validation and known is None:
        raise InputError("a validation split is taken from a named benchmark, not a stream")
    chosen = plan(
        kind,
        benchmark=known,
        buffer=buffer,
        seeds=seeds,
        values=hyperparameters,
        epochs=epochs,
        validation=validation,
    )
    stream = known.stream(validation, data_dir) if known else benchmark
    assert not isinstance(stream, str)
    jobs = chosen.jobs(stream, network, place, full_precision)
    return Results(
        train_all(jobs, workers=workers, checkpoints=saving and saving.of(jobs, workers))
    )
