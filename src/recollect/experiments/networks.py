"""Networks by name or location, built for a stream."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import final

from torch import nn

from recollect.core.locations import is_location, object_at
from recollect.errors import InputError, unknown_name
from recollect.nets import MLP, ResNet18
from recollect.streams import Stream
from recollect.streams.stream import packing_of

Network = Callable[[], nn.Module] | nn.Module

LINEAR = "linear"  # a single layer, whose features are the inputs
NAMES = ("mlp", LINEAR, "resnet18")
PASSED = ("classes", "shape", "stream")


@final
@dataclass(frozen=True)
class NetworkChoice:
    """A network by its name or location (None: a default), and sizes that differ from its own."""

    name: str | None = None
    width: int | None = None
    hidden: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if any(size < 1 for size in (self.width or 1, *(self.hidden or ()))):
            raise InputError("--hidden and --width must be at least 1")
        if self.name is None:
            return
        if self.name not in NAMES and not is_location(self.name):
            error = unknown_name("network", self.name, NAMES)
            raise InputError(f"{error}; or give path/to/file.py:Name or package.module:Name")
        if self.width is not None and self.name != "resnet18":
            raise InputError(f"--width is for resnet18, but the network is {self.name}")
        if self.hidden is not None and self.name != "mlp":
            raise InputError(f"--hidden is for the mlp, but the network is {self.name}")

    def build(self, stream: Stream) -> Network:
        """Return a module, or a function that builds it, with an output per class of the stream."""
        if self.name is not None and is_location(self.name):
            return located_network(self.name, stream)
        if (packing := packing_of(stream)) is not None:
            raise InputError(
                f"there is no default network for {stream.name}, whose examples are {packing}: "
                f"pass one as network=..."
            )
        if self.name == "resnet18":
            if len(stream.shape) != 3:
                raise InputError(
                    f"resnet18 needs images, but examples of {stream.name} have the shape "
                    f"{[*stream.shape]}"
                )
            sizes = {} if self.width is None else {"width": self.width}
            if stream.shape[0] != 3:
                sizes["channels"] = stream.shape[0]
            return partial(ResNet18, stream.classes, **sizes)
        hidden = () if self.name == LINEAR else self.hidden
        mlp = partial(MLP, math.prod(stream.shape), stream.classes)
        return mlp if hidden is None else partial(mlp, hidden=tuple(hidden))


DEFAULT = NetworkChoice()


def located_network(text: str, stream: Stream) -> Network:
    """Load a module, or a function or class that builds one, from its location.

    Its required arguments must be among `classes` (their number), `shape` (that of an example)
    and `stream`, and are passed by name.
    """
    where, name, found = object_at(text, "network", _builds)
    if isinstance(found, nn.Module):
        return found
    if not callable(found):
        raise InputError(
            f"{name} in {where} is not a network: it must be a torch.nn.Module, or a function or "
            f"class that builds one"
        )
    required = [
        each.name
        for each in inspect.signature(found).parameters.values()
        if each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    if unknown := [each for each in required if each not in PASSED]:
        raise InputError(
            f"{name} in {where} needs the argument {unknown[0]}: give it a default "
            f"({', '.join(PASSED)} are passed if it asks for them)"
        )
    values = {"classes": stream.classes, "shape": tuple(stream.shape), "stream": stream}
    return partial(found, **{each: values[each] for each in required}) if required else found


def _builds(value: object) -> bool:
    """Whether a module-level object looks like a network, to suggest it."""
    kind = isinstance(value, type) and issubclass(value, nn.Module)
    return kind or isinstance(value, nn.Module)
