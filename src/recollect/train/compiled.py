"""A step compiled once per shape."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

__all__ = ["Compiled", "compiler_exists"]

WARM_UP = 3

Shapes = tuple[torch.Size, ...]
Flat = Callable[[Sequence[Tensor]], Sequence[Tensor]]


def compiler_exists() -> bool:
    """Whether there is a C++ compiler for torch's compiler to use."""
    return any(shutil.which(name) for name in ("g++", "c++", "clang++"))


class Compiled:
    """A step that is traced, gradient and all, and compiled for every shape of its batch.

    `state` is what the step changes in place, always the same tensors; a shape that was met only
    a few times, such as the last batch of a task, runs as it is.
    """

    def __init__(self, step: Callable[..., Tensor], state: tuple[Any, ...]) -> None:
        self._step = step
        self._state = state
        self._flat_state = pytree.tree_leaves(state)
        self._met: Counter[Shapes] = Counter()
        self._ready: dict[Shapes, Flat] = {}

    def __call__(self, *batch: Tensor) -> Tensor:
        """What the step returns; its effects in place are the same."""
        shapes = tuple(tensor.shape for tensor in batch)
        ready = self._ready.get(shapes)
        if ready is not None:
            with torch.no_grad():
                return ready([*self._flat_state, *batch])[0]
        self._met[shapes] += 1
        if self._met[shapes] > WARM_UP:
            self._ready[shapes] = self._compile(batch)
        return self._step(*self._state, *batch)

    def _compile(self, batch: Sequence[Tensor]) -> Flat:
        """Compile for this shape; tracing works on copies and changes nothing."""
        # The compiler takes seconds to import, and most runs never need it.
        from torch._inductor.compile_fx import compile_fx
        from torch.fx.experimental.proxy_tensor import make_fx

        _, structure = pytree.tree_flatten(self._state)

        def flat(*tensors: Tensor) -> tuple[Tensor, ...]:
            state = pytree.tree_unflatten(tensors[: structure.num_leaves], structure)
            return (self._step(*state, *tensors[structure.num_leaves :]),)

        copies = [tensor.clone() for tensor in (*self._flat_state, *batch)]
        graph = make_fx(flat)(*copies)
        graph.graph.eliminate_dead_code()
        graph.recompile()
        with torch.no_grad():
            compiled: Any = compile_fx(graph, copies)
        return lambda tensors: compiled(*tensors)
