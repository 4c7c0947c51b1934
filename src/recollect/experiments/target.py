"""Resolve the method and benchmark arguments of a call."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path

from recollect.errors import InputError
from recollect.methods import Method, hyperparameters
from recollect.methods import method as method_named
from recollect.streams import Benchmark, Stream
from recollect.streams import benchmark as benchmark_named
from recollect.streams.stream import validation_of

__all__ = ["kind_and_values", "known_benchmark", "stream_of"]


def kind_and_values(method: str | Method | type[Method]) -> tuple[type[Method], dict[str, float]]:
    """Return the class of a method, and the hyper-parameters if an instance is given."""
    if isinstance(method, Method):
        kind = _checked(type(method))
        return kind, {name: float(getattr(method, name)) for name in hyperparameters(kind)}
    return method_named(method) if isinstance(method, str) else _checked(method), {}


def known_benchmark(benchmark: str | Stream) -> Benchmark | None:
    """Return the benchmark of that name; None for a custom stream."""
    if isinstance(benchmark, str):
        return benchmark_named(benchmark)
    if not hasattr(benchmark, "pick"):
        raise InputError(
            f"the benchmark must be a name or a stream (see recollect.from_arrays), not "
            f"{type(benchmark).__name__}"
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
    known = {field.name for field in fields(kind)}
    for name, said in inspect.get_annotations(kind).items():
        if name not in known and "ClassVar" not in str(said):
            raise InputError(
                f"{name!r} is not yet a hyper-parameter of {kind.__name__}: decorate "
                f"the class with @dataclass(frozen=True)"
            )
    return kind
