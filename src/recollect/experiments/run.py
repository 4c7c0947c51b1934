"""Train a method on a benchmark: the researcher's one call."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from recollect.errors import InputError
from recollect.experiments.plan import Network, plan
from recollect.experiments.recorder import StorePath, recorder
from recollect.experiments.results import Results
from recollect.experiments.target import kind_and_values, known_benchmark, stream_of
from recollect.experiments.values import checked_seeds, checked_sizes
from recollect.methods import Method
from recollect.streams import Stream
from recollect.train import Callback, Checkpoints, Details, device_named, train_all
from recollect.train.details import CURVE_EXAMPLES
from recollect.train.optimisation import Optimisation

__all__ = ["run"]


def run(
    benchmark: str | Stream,
    method: str | Method | type[Method],
    *,
    buffer: int | Iterable[int] | None = None,
    seeds: int | Iterable[int] = 10,
    epochs: int | None = None,
    class_order: int | str | None = None,
    network: Network | None = None,
    validation: bool = False,
    data_dir: Path | str | None = None,
    workers: int | None = None,
    device: str = "auto",
    full_precision: bool = False,
    checkpoint: Path | str | None = None,
    time_limit: float | None = None,
    store: StorePath = None,
    optimiser: str = "SGD",
    nesterov: bool = False,
    schedule: str = "constant",
    schedule_per: str = "stream",
    curves: int | bool = False,
    curve_examples: int = CURVE_EXAMPLES,
    confusion: bool = False,
    save_networks: Path | str | None = None,
    callbacks: Sequence[Callback] | Callback = (),
    **hyperparameters: float | Iterable[float],
) -> Results:
    """Train a method on a benchmark, all seeds (and all given values) as one fleet.

    `benchmark` is a name or a stream of your own (`recollect.from_arrays`); `method` a name, a
    class, or an instance, whose hyper-parameters are then used. What is not given is the paper's
    choice for that benchmark and buffer. A hyper-parameter may be a list: the fleet then spans
    the grid. So may the buffer: one fleet for each. `class_order="seed"` gives every seed of a
    benchmark with new classes another order of them, and a number one random order to all.

    With `store`, a file (or True: the usual one), runs that are there are taken from it instead of
    being trained again, and new ones go there, as with the command `recollect run`.

    `optimiser` is SGD (with `momentum`, `weight_decay`, `nesterov`), Adam or AdamW (with `beta1`,
    `beta2`, `eps`, `weight_decay`); `clip` limits the norm of gradients. `schedule` is constant,
    step or cosine, over the stream or anew per task (`schedule_per`), after `warmup` steps. Their
    numbers are hyper-parameters like any other and may be lists.

    `device` is a GPU if there is one; there, convolutional networks compute in bfloat16 unless
    `full_precision`. A long run saves its state into the folder `checkpoint` every two minutes
    and at Ctrl+C or SIGTERM, and the same call continues from it; after `time_limit` seconds it
    raises `TimeUp`.

    `curves=100` records loss and accuracy every 100 steps (`True`: every 200), on at most
    `curve_examples` test examples of each task, and `confusion=True` confusion matrices; both are
    fields of `Result`. `save_networks` is a folder for the trained networks, which
    `Result.module` gives back. `callbacks` are called while training, in this process alone: all
    runs are then trained, and stored only if every callback says that it only observes.

    >>> results = run("seq-digits", "derpp", buffer=50, seeds=2, lr=[0.03, 0.1])
    >>> [(r.seed, r.hyperparameters["lr"]) for r in results]
    [(0, 0.03), (1, 0.03), (0, 0.1), (1, 0.1)]
    >>> results[0].accuracy["class"] > 30
    True
    """
    kind, own = kind_and_values(method)
    hyperparameters = {**own, **hyperparameters}
    where = device_named(device)
    details = Details.of(curves, curve_examples, confusion, save_networks, callbacks)
    saving = _checkpoints(checkpoint, time_limit)
    known = known_benchmark(benchmark)
    sizes = checked_sizes(buffer)
    numbers = checked_seeds(seeds)
    plans = [
        plan(
            kind,
            benchmark=known,
            buffer=size,
            seeds=numbers,
            values=hyperparameters,
            epochs=epochs,
            validation=validation,
            optimisation=Optimisation(optimiser, nesterov, schedule, schedule_per),
        )
        for size in sizes
    ]
    stream = stream_of(benchmark, validation, data_dir, class_order)
    jobs = [job for each in plans for job in each.jobs(stream, network, where, full_precision)]
    jobs = [replace(job, details=details) for job in jobs]
    recording = recorder(store)
    if recording.store and details.changing:
        warnings.warn(_not_stored(details.changing[0]), stacklevel=2)
    return recording.results(
        train_all(
            jobs,
            workers=workers,
            checkpoints=saving and saving.of(jobs, workers),
            store=recording,
        )
    )


def _not_stored(callback: Callback) -> str:
    return (
        f"results are not stored, because {type(callback).__name__} may change what is trained: "
        f"if it does not, give the class the line `only_observes = True`"
    )


def _checkpoints(folder: Path | str | None, time_limit: float | None) -> Checkpoints | None:
    if time_limit is not None and not (
        isinstance(time_limit, int | float) and math.isfinite(time_limit) and time_limit > 0
    ):
        raise InputError(f"the time limit must be a number of seconds above 0, not {time_limit!r}")
    if folder is None:
        if time_limit is not None:
            raise InputError("a time limit needs a folder for the state: give one as checkpoint")
        return None
    deadline = None if time_limit is None else time.monotonic() + time_limit
    return Checkpoints(Path(folder), deadline=deadline)
