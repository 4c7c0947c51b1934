"""Fingerprints of the stream's content and of the network."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from recollect.core.modules import built, seeded
from recollect.core.network import CONVOLUTIONS
from recollect.core.source import captured_by, facts_of
from recollect.errors import InputError
from recollect.streams.stream import Stream
from recollect.train.code import tokens_of
from recollect.train.networks import ARGUMENTS

BLOCK, BLOCKS = 64, 8
SAMPLE = 64
LETTERS = 16
SEED = 0
SIZES = ("hidden", "width")
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@final
@dataclass(frozen=True)
class NetworkFacts:
    """A network's fingerprint, the classes of its layers, and whether it has convolutions.

    A function that builds a network is called once with torch's generator seeded; the resulting
    weights, from its own initialisation or from a file, are part of the fingerprint. `name` is the
    name of its class; for a network of this library, it has the sizes that are not the defaults,
    as in "ResNet18(width=20)" or "Linear" for no hidden layers, and is empty if there are none.
    """

    fingerprint: str
    classes: tuple[type, ...]
    convolves: bool
    name: str = ""

    @classmethod
    def of(cls, network: Callable[[], nn.Module] | nn.Module) -> NetworkFacts:
        """Describe a network, given as a module or a function that builds one."""
        with seeded(torch.device("cpu"), SEED):
            module = built(network)
        if not isinstance(module, nn.Module):
            return cls(repr(module), (), False)  # refused when the fleet is created
        tensors = [*module.named_parameters(), *module.named_buffers()]
        _check_sizes(module)
        weights = hashlib.sha256()
        usual = module is not network and _is_usual(module)
        for _, tensor in () if usual else tensors:
            weights.update(_bytes(tensor))
        facts: list[object] = [
            _layers(module),
            [(n, [*t.shape]) for n, t in tensors],
            weights.hexdigest(),
        ]
        facts += [found] if (found := _attributes(module)) else []
        own = _custom_kinds(module)
        facts += [values] if (values := captured_by(*own)) else []
        return cls(
            hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:LETTERS],
            tuple(own),
            any(isinstance(layer, CONVOLUTIONS) for layer in module.modules()),
            _name(module),
        )


def _check_sizes(module: nn.Module) -> None:
    """Refuse lazy layers, which have no weights before their first call."""
    for path, layer in module.named_modules():
        if any(map(is_lazy, [*layer.parameters(False), *layer.buffers(False)])):
            kind = type(layer).__name__
            raise InputError(
                f"the layer {path or 'network'} ({kind}) has no size yet: give its sizes, as in "
                f"torch.nn.{kind.removeprefix('Lazy')}(...), or call the network once on an "
                f"example in the function that builds it"
            )


def weights_fingerprint(module: nn.Module) -> str:
    """A short hash of the weights and buffers of a module, independent of its code.

    >>> first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> weights_fingerprint(first) == weights_fingerprint(second)
    False
    """
    found = hashlib.sha256()
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        found.update(_bytes(tensor))
    return found.hexdigest()[:LETTERS]


def module_code_fingerprint(module: nn.Module) -> str:
    """A short hash of a module's layers, and of the code and attributes of custom layers.

    It does not depend on the weights.

    >>> first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> module_code_fingerprint(first) == module_code_fingerprint(second)
    True
    """
    own = _custom_kinds(module)
    attributes = [
        [path, name, facts_of(value)]
        for path, layer in module.named_modules()
        if type(layer) in own
        for name, value in sorted(vars(layer).items())
        if not name.startswith("_") and name != "training"
    ]
    facts = [_layers(module), attributes, [tokens_of(kind) for kind in own], captured_by(*own)]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:LETTERS]


def _layers(module: nn.Module) -> str:
    """Describe the layers as torch prints them, in the same words in all its versions.

    Since version 2.12, torch prints whether a normalisation has a bias; its parameters tell that.
    """
    return re.sub(r"(affine=\w+), bias=\w+", r"\1", repr(module))


def _name(module: nn.Module) -> str:
    kind = type(module)
    if not kind.__module__.startswith("recollect."):
        return kind.__name__
    if kind not in ARGUMENTS:
        return ""
    defaults = inspect.signature(kind).parameters
    sizes = {name: value for name, value in ARGUMENTS[kind](module).items() if name in SIZES}
    if sizes.get("hidden") == []:
        return "Linear"
    said = [f"{n}={v}" for n, v in sizes.items() if v != type(v)(defaults[n].default)]
    return f"{kind.__name__}({', '.join(said)})" if said else ""


def _custom_kinds(module: nn.Module) -> list[type]:
    """The classes of a module's layers that are not torch's."""
    kinds = {type(layer) for layer in module.modules()}
    own = [kind for kind in kinds if kind.__module__.partition(".")[0] != "torch"]
    return sorted(own, key=lambda kind: (kind.__module__, kind.__qualname__))


def _is_usual(module: nn.Module) -> bool:
    """Whether a network of this library has the initial weights that `SEED` gives.

    Other weights are part of the fingerprint, since a function may load them from a file.
    """
    arguments = ARGUMENTS.get(type(module))
    if arguments is None or not _is_library(module):
        return False
    with seeded(torch.device("cpu"), SEED):
        mine, usual = module.state_dict(), type(module)(**arguments(module)).state_dict()
    return mine.keys() == usual.keys() and all(
        torch.equal(tensor.cpu(), usual[name]) for name, tensor in mine.items()
    )


def _is_library(module: nn.Module) -> bool:
    kinds = {type(layer).__module__.partition(".")[0] for layer in module.modules()}
    return type(module) in ARGUMENTS and kinds <= {"torch", "recollect"}


def _attributes(module: nn.Module) -> list[object]:
    """The attributes and hooks of layers, which may affect what they compute.

    Empty for a network of this library, which is described by the rest of its fingerprint.
    """
    if _is_library(module):
        return []
    found: list[object] = []
    for path, layer in module.named_modules():
        for name, value in sorted(vars(layer).items()):
            if name in HOOKS and value:
                found.append([f"{path}.{name}", facts_of([*value.values()])])
            elif not name.startswith("_") and name != "training":
                found.append([f"{path}.{name}", facts_of(value)])
    return found


def stream_fingerprint(stream: Stream) -> str:
    """A short hash of the content of a stream: its data, and a sample of a run with seed 0.

    The data are all tensors in its fields. The sample has eight segments of the order of every
    task's first epoch, some of their examples, and some of the test examples of the first and last
    task.
    """
    known = _known.get(id(stream))
    if known is not None and known[0]() is stream:
        return known[1]
    found = hashlib.sha256()
    _add(found, stream)
    _add_sample(found, stream)
    name = found.hexdigest()[:LETTERS]
    with suppress(TypeError):  # without weak references, it is computed every time
        _known[id(stream)] = (weakref.ref(stream), name)
    return name


_known: dict[int, tuple[weakref.ref[Stream], str]] = {}


def _add(found: hashlib._Hash, value: object) -> None:
    """Add a value to a hash: numbers, strings, tensors, and sequences and dataclasses of these."""
    found.update(f"{type(value).__qualname__}:".encode())
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(np.ascontiguousarray(value))
    if isinstance(value, Tensor):
        found.update(f"{value.dtype} {tuple(value.shape)};".encode())
        found.update(_bytes(value))
    elif is_dataclass(value):
        for field in fields(value):
            if getattr(value, field.name) is None and field.metadata.get("absent_if_none"):
                continue
            found.update(field.name.encode())
            _add(found, getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for each in value:
            _add(found, each)
    elif value is None or isinstance(value, str | int | float | torch.dtype):
        found.update(f"{value!r};".encode())


def _add_sample(found: hashlib._Hash, stream: Stream) -> None:
    """Add a sample of the examples of a run with seed 0 to a hash."""
    seeds = torch.tensor([0])
    _add(found, (stream.setting, stream.boundaries, stream.classes, tuple(stream.shape)))
    for task in range(stream.tasks):
        parts = stream.parts(task)
        count = sum(parts)
        starts = _spread(max(count - BLOCK + 1, 1), BLOCKS).tolist()
        bounds = [(start, min(start + BLOCK, count)) for start in starts]
        order = torch.cat([stream.order(seeds, task, 0, *ends) for ends in bounds], 1)
        seen = stream.pick(seeds, task, order[:, _spread(order.shape[1], SAMPLE)])
        _add(found, (tuple(parts), tuple(stream.task_classes(task)), order, seen.x, seen.y))
    for task in sorted({0, stream.tasks - 1}):
        test = stream.test(seeds, task)
        some = _spread(test.x.shape[1], SAMPLE)
        _add(found, (tuple(test.x.shape), test.x[:, some], test.y[:, some]))


def _spread(count: int, most: int) -> Tensor:
    """At most `most` evenly spaced indices from 0 to count - 1.

    >>> _spread(101, 3).tolist(), _spread(2, 3).tolist()
    ([0, 50, 100], [0, 1])
    """
    return torch.linspace(0, count - 1, min(count, most), dtype=torch.float64).round().long()


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data
