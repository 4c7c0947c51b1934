"""A function of tensors, traced with its gradient and compiled once per shape."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["Compiled", "compiler_exists"]

Function = Callable[..., tuple[Tensor, ...]]
Shapes = tuple[torch.Size, ...]


_KNOWN: dict[tuple[Hashable, torch.device, Shapes], Function] = {}


def compiler_exists() -> bool:
    """Whether there is a C++ compiler for torch's compiler to use."""
    return any(shutil.which(name) for name in ("g++", "c++", "clang++"))


class Compiled:
    """The same function, gradients and changes in place included, compiled when a shape is new.

    Functions of one `kind` are the same function: a fleet finds what an earlier one of its kind
    has compiled.
    """

    def __init__(self, function: Function, kind: Hashable) -> None:
        self._function = function
        self._kind = kind
        self._ready: dict[Shapes, Function] = {}

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """What the function returns; its effects in place are the same."""
        shapes = tuple(tensor.shape for tensor in tensors)
        if shapes not in self._ready:
            known = (self._kind, tensors[0].device, shapes)
            if known not in _KNOWN:
                _KNOWN[known] = self._compile(tensors)
            self._ready[shapes] = _KNOWN[known]
        with torch.no_grad():
            return self._ready[shapes](*tensors)

    def _compile(self, tensors: Sequence[Tensor]) -> Function:
        """Compile for these shapes; tracing works on copies and changes nothing."""
        # The compiler takes seconds to import, and most runs never need it.
        from torch._inductor.compile_fx import compile_fx
        from torch.fx.experimental.proxy_tensor import make_fx

        copies = [_copy(tensor) for tensor in tensors]
        graph = make_fx(self._function)(*copies)
        graph.graph.eliminate_dead_code()
        graph.recompile()
        with torch.no_grad():
            compiled: Any = compile_fx(graph, copies)
        return lambda *given: tuple(compiled(*given))


def _copy(tensor: Tensor) -> Tensor:
    """A copy with the same strides, so that what is compiled fits the tensors it will meet."""
    strides = tensor.stride()
    return torch.empty_strided(
        tensor.shape, strides, dtype=tensor.dtype, device=tensor.device
    ).copy_(tensor)
