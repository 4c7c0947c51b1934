"""Train a method on a benchmark."""

from __future__ import annotations

import inspect
import math
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path

from recollect.errors import InputError
from recollect.experiments.networks import Network
from recollect.experiments.plan import plan
from recollect.experiments.recorder import StorePath, recorder
from recollect.experiments.results import Results
from recollect.experiments.values import checked_seeds, checked_sizes
from recollect.methods import Method, check_name
from recollect.methods import hyperparameters as declared
from recollect.methods import method as method_named
from recollect.methods.base import uncalled_hook
from recollect.methods.options import check_hyperparameters
from recollect.streams import Benchmark, Stream
from recollect.streams import benchmark as benchmark_named
from recollect.streams.stream import validation_of
from recollect.train import Callback, Checkpoints, Details, device_named, train_all
from recollect.train.details import CURVE_EXAMPLES
from recollect.train.devices import in_half
from recollect.train.optimisation import Optimisation


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
    precision: str = "auto",
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
    """Train a method on a benchmark, with all seeds and values in one fleet.

    `benchmark` is a name or a custom stream (`recollect.from_arrays`). `method` is a name, a class,
    or an instance, whose hyper-parameters are then used. Hyper-parameters that are not given
    default to the paper's for that benchmark and buffer. If hyper-parameters are lists, all
    combinations are trained. `buffer` may be a list too, with one fleet for each size. For
    benchmarks whose tasks add classes, `class_order="seed"` gives each seed a random class order,
    and an integer gives all seeds the same random order.

    With `store`, a file (or True for the default one), runs that it contains are not trained again,
    and new ones are added to it, as by the command `recollect run`.

    `optimiser` is SGD (with `momentum`, `weight_decay`, `nesterov`), Adam or AdamW (with `beta1`,
    `beta2`, `eps`, `weight_decay`); `clip` limits the gradient norm. `schedule` is constant, step
    or cosine, after `warmup` steps; it runs once over the stream or restarts in each task
    (`schedule_per`). Their numbers are hyper-parameters and may be lists.

    `device="auto"` uses a GPU if available. `precision` is that of convolutional networks: "bf16",
    the default on a GPU, or "float32". With `checkpoint`, a folder, the state is saved every two
    minutes and on Ctrl+C or SIGTERM, and the same call resumes from it. After `time_limit` seconds
    the call saves its state and raises `TimeUp`.

    `curves=100` records loss and accuracy every 100 steps (`True`: every 200), on at most
    `curve_examples` test examples of each task; `confusion=True` records confusion matrices. Both
    are fields of `Result`. `save_networks` is a folder for the trained networks, which
    `Result.module` loads. `callbacks` are called during training, which then uses this process
    only. With callbacks, stored runs are trained again, and results are stored only if all
    callbacks declare `only_observes`.

    >>> results = run("seq-digits", "derpp", buffer=50, seeds=2, lr=[0.03, 0.1])
    >>> [(r.seed, r.hyperparameters["lr"]) for r in results]
    [(0, 0.03), (1, 0.03), (0, 0.1), (1, 0.1)]
    >>> results[0].accuracy["class"] > 30
    True
    """
    if validation not in (True, False):
        raise InputError(
            f"validation must be True or False, not {validation!r}: for another share than "
            f"a tenth, pass stream.validation(share=0.2) as the stream"
        )
    kind, own = kind_and_values(method)
    hyperparameters = {**own, **hyperparameters}
    half = in_half(precision, where := device_named(device))
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
            validation=bool(validation),
            optimisation=Optimisation(optimiser, nesterov, schedule, schedule_per),
        )
        for size in sizes
    ]
    stream = stream_of(benchmark, validation, data_dir, class_order)
    jobs = [job for each in plans for job in each.jobs(stream, network, where, half)]
    jobs = [replace(job, details=details) for job in jobs]
    recording = recorder(store)
    if recording.store:
        check_name(kind)
    if recording.store and details.changing:
        callback = type(details.changing[0]).__name__
        warnings.warn(
            f"results are not stored, because the callback {callback} may change the training: if "
            f"it does not, set `only_observes = True` in its class",
            stacklevel=2,
        )
    return recording.results(
        train_all(
            jobs,
            workers=workers,
            checkpoints=saving and saving.of(jobs, workers),
            store=recording,
        )
    )


def kind_and_values(method: str | Method | type[Method]) -> tuple[type[Method], dict[str, float]]:
    """Return the class of a method, and the hyper-parameters if an instance is given."""
    if isinstance(method, Method):
        kind = _checked(type(method))
        check_hyperparameters(method)
        return kind, {name: float(getattr(method, name)) for name in declared(kind)}
    return method_named(method) if isinstance(method, str) else _checked(method), {}


def known_benchmark(benchmark: str | Stream) -> Benchmark | None:
    """Return the benchmark of that name; None for a custom stream."""
    if isinstance(benchmark, str):
        return benchmark_named(benchmark)
    members = [name for name in vars(Stream) if name[0] != "_"]
    missing = [name for name in members if not hasattr(benchmark, name)]
    if {"order", "pick"} & {*missing}:
        raise InputError(
            f"the benchmark must be a name or a stream (see recollect.from_arrays and "
            f"from_dataset), not {type(benchmark).__name__}"
        )
    if missing:
        raise InputError(
            f"the stream {type(benchmark).__name__} has no {', '.join(missing)}: it needs all "
            f"members of recollect.streams.Stream"
        )
    return None


def stream_of(
    benchmark: str | Stream,
    validation: bool = False,
    folder: Path | str | None = None,
    class_order: int | str | None = None,
) -> Stream:
    """Return a benchmark's stream, or the given one; with `validation`, its validation split."""
    if isinstance(benchmark, str):
        return benchmark_named(benchmark).stream(validation, folder, class_order=class_order)
    if class_order is not None:
        raise InputError(
            "class_order applies to benchmarks by name: for a custom stream, pass it to from_arrays"
        )
    return validation_of(benchmark) if validation else benchmark


def _checked(kind: object) -> type[Method]:
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise InputError(
            f"the method must be a name, a class or an instance of recollect.Method, not {kind!r}"
        )
    for name in ("name", "title"):
        if not hasattr(kind, name):
            raise InputError(f'{kind.__name__} has no {name}: set one, for example {name} = "mine"')
    if kind.loss is Method.loss and kind.update is Method.update:
        raise InputError(f"{kind.__name__} must define loss or update")
    if uncalled := uncalled_hook(kind):
        raise InputError(f"{kind.__name__} cannot be used: {uncalled}")
    known = {field.name for field in fields(kind)}
    for name, said in inspect.get_annotations(kind).items():
        if name not in known and "ClassVar" not in str(said):
            raise InputError(
                f"{name!r} is not yet a hyper-parameter of {kind.__name__}: decorate "
                f"the class with @dataclass(frozen=True)"
            )
    return kind


def _checkpoints(folder: Path | str | None, time_limit: float | None) -> Checkpoints | None:
    if time_limit is not None and not (
        isinstance(time_limit, int | float) and math.isfinite(time_limit) and time_limit > 0
    ):
        raise InputError(f"the time limit must be a number of seconds above 0, not {time_limit!r}")
    if folder is None:
        if time_limit is not None:
            raise InputError("a time limit needs a folder to save the state in: pass checkpoint")
        return None
    deadline = None if time_limit is None else time.monotonic() + time_limit
    return Checkpoints(Path(folder), deadline=deadline)
