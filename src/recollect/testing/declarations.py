"""Promises about declarations: a method's class says what it is, in the types that are expected."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain

import torch

from recollect.memory import Stored
from recollect.methods import Field, Method, Needs, Replay, Setup, hyperparameters
from recollect.testing.check import Broken
from recollect.testing.trial import SPEC

__all__ = ["declarations"]

KNOWN = ("x", "y", "logits")
TAKEN = {*dir(Stored), "valid"}


def declarations(method: Method) -> None:
    """It is a frozen dataclass of numbers with a name, a title and help; declarations fit."""
    kind = type(method)
    for sentence in chain(_texts(kind), _numbers(method), _needs(kind), _replays(method)):
        raise Broken(sentence)


def _texts(kind: type[Method]) -> Iterator[str]:
    if "__dataclass_params__" not in vars(kind):
        yield "it is not a dataclass of its own: put @dataclass(frozen=True) above the class"
    for name in ("name", "title"):
        if not isinstance(getattr(kind, name, None), str) or not getattr(kind, name):
            yield f"it has no {name}: give it one, such as {name}: ClassVar[str] = '...'"
    said = (kind.__doc__ or "").strip()
    if not said or said.startswith(f"{kind.__name__}("):
        yield "it has no docstring: say in a sentence how it learns"
    if kind.loss is Method.loss and kind.update is Method.update:
        yield "it defines neither loss nor update"


def _numbers(method: Method) -> Iterator[str]:
    for name, hyperparameter in hyperparameters(type(method)).items():
        value = getattr(method, name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value):
            yield f"its hyper-parameter {name} is {value!r}: it must be a finite number"
        if hyperparameter.static and not isinstance(value, int):
            yield f"{name} is annotated int, but {value!r} is not a whole number"
        if not hyperparameter.help:
            yield (
                f"its hyper-parameter {name} has no line of help: declare it by "
                f"{name}: float | Tensor = recollect.hyper({value!r}, '...')"
            )


def _needs(kind: type[Method]) -> Iterator[str]:
    needs: object = kind.needs
    if not isinstance(needs, Needs):
        yield f"`needs` is {needs!r}: give recollect.Needs(...)"
        return
    for name, value in vars(needs).items():
        if name != "batch_size" and not isinstance(value, bool):
            yield f"`needs.{name}` is {value!r}: it must be True or False"
    size = needs.batch_size
    if size is not None and not _at_least(size, 1):
        yield f"`needs.batch_size` is {size!r}: it must be a whole number, 1 or more, or None"
    for hook in ("start_task", "end_task"):
        if getattr(kind, hook) is not getattr(Method, hook) and not needs.boundaries:
            yield f"it defines {hook}, which is called only if it declares Needs(boundaries=True)"


def _replays(method: Method) -> Iterator[str]:
    setup: object = method.setup(SPEC)
    if not isinstance(setup, Setup):
        yield f"its setup returns {setup!r}: it must return a recollect.Setup"
        return
    yield from _replay(method.replay, "`replay`")
    yield from _replay(setup.replay, "`replay` of its setup")
    if setup.replay is not None and method.replay is None:
        yield "its setup has a replay, and its class has none: declare `replay` there too"


def _replay(replay: object, what: str) -> Iterator[str]:
    if replay is None:
        return
    if not isinstance(replay, Replay) or not isinstance(replay.fields, tuple):
        yield f"{what} is {replay!r}: give recollect.Replay(('x', 'y'), draws=1) or the like"
        return
    for each in replay.fields:
        if isinstance(each, str) and each not in KNOWN:
            yield (
                f"{what} names the field {each!r}: x, y and logits are known by name, others are "
                f"given as recollect.Field({each!r}, shape, dtype)"
            )
        if isinstance(each, Field) and not _sound(each):
            yield f"{what} has {each!r}: a field has a name, a tuple of sizes and a torch.dtype"
        if isinstance(each, Field) and each.name in TAKEN:
            yield f"{what} has a field {each.name!r}, which a draw has anyway: rename it"
    if len(set(replay.names)) < len(replay.names):
        yield f"{what} names a field twice"
    if not _at_least(replay.draws, 0):
        yield f"`draws` of {what} is {replay.draws!r}: it must be a whole number, 0 or more"
    if not replay.fields:
        yield f"{what} has no fields: say what is stored of an example"


def _sound(field: Field) -> bool:
    sizes = isinstance(field.shape, tuple) and all(_at_least(size, 0) for size in field.shape)
    return isinstance(field.name, str) and sizes and isinstance(field.dtype, torch.dtype)


def _at_least(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
