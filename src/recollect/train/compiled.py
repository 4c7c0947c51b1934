"""A step compiled once per shape."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

__all__ = ["Compiled", "compiler_exists"]

WARM_UP = 3


def compiler_exists() -> bool:
    """Whether there is a C++ compiler for `torch.compile` to use."""
    return any(shutil.which(name) for name in ("g++", "c++", "clang++"))


class Compiled:
    """A function of tensors that is traced, gradient and all, and compiled for every shape.

    A shape that was met only a few times, such as the last batch of a task, runs as it is.
    """

    def __init__(self, function: Callable[..., Tensor]) -> None:
        self._function = function
        self._met: Counter[tuple[torch.Size, ...]] = Counter()
        self._ready: dict[tuple[torch.Size, ...], Callable[..., Tensor]] = {}

    def __call__(self, *args: Any) -> Tensor:
        """What the function returns; its effects in place are the same."""
        shapes = tuple(leaf.shape for leaf in pytree.tree_leaves(args))
        if (ready := self._ready.get(shapes)) is not None:
            with torch.no_grad():
                return ready(*args)
        self._met[shapes] += 1
        if self._met[shapes] > WARM_UP:
            self._ready[shapes] = torch.compile(_trace(self._function, args), dynamic=False)
        return self._function(*args)


def _trace(function: Callable[..., Tensor], args: tuple[Any, ...]) -> torch.nn.Module:
    """The function as a graph of plain operations; tracing works on copies and changes nothing."""
    copies = pytree.tree_map(torch.clone, args)
    graph: torch.fx.GraphModule = make_fx(lambda *tensors: function(*tensors))(*copies)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph
