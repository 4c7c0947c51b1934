"""A function of tensors, traced with its gradient and compiled once per shape."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from recollect.core.network import Network
from recollect.errors import InputError, RecollectError
from recollect.train.execution import reason, say_slower

__all__ = ["Compiled", "compiler_exists", "compiling_pays", "fast_steps"]

MANY_STEPS = 20_000
MANY_STEPS_ON_GPU = 40_000

Function = Callable[..., dict[str, Tensor]]
Layout = tuple[tuple[torch.Size, tuple[int, ...], torch.dtype], ...]

_KNOWN: dict[tuple[Hashable, int, torch.device, Layout], Function] = {}
_FAILED: set[tuple[Hashable, str]] = set()


def compiler_exists() -> bool:
    """Whether there is a C++ compiler for torch's compiler to use."""
    return any(shutil.which(name) for name in ("g++", "c++", "clang++"))


def compiling_pays(device: torch.device, one_by_one: bool, steps: int, runs: int) -> bool:
    """Whether compiling takes less time than it saves, over so many steps.

    Dense networks gain on a CPU, where it takes about ten seconds, and convolutional ones on a
    GPU, where it takes about a minute.
    """
    if device.type == "cuda":
        return one_by_one and steps * runs >= MANY_STEPS_ON_GPU
    return not one_by_one and steps >= MANY_STEPS


def fast_steps(
    compiled: bool | None, recorded: bool | None, network: Network, steps: int, runs: int
) -> tuple[bool, bool]:
    """Whether steps are compiled and recorded; what is not said (None) is chosen for speed."""
    if network.noisy:  # its layers are seeded from outside the step, every time
        return False, False
    device = network.device
    if compiled and not compiler_exists():
        raise InputError("compiling was asked for, but no C++ compiler was found: install one")
    if compiled is None:
        compiled = compiling_pays(device, network.strategy == "loop", steps, runs)
        if compiled and not compiler_exists():
            compiled = False
            say_slower(
                "no C++ compiler was found: steps are taken uncompiled, which gives the same "
                "results more slowly; install g++ or clang++"
            )
    return compiled, device.type == "cuda" if recorded is None else recorded


class Compiled:
    """The same function, gradients and changes in place included, compiled when a shape is new.

    Functions of one `kind` and `task` are the same function: a fleet finds what an earlier one of
    its kind has compiled. Where compiling fails, `possible` becomes false for all functions of
    the kind in this process, and a warning that begins with `title` says why.
    """

    def __init__(
        self, function: Function, kind: Hashable, task: int, device: torch.device, title: str
    ) -> None:
        self._function = function
        self._kind, self._task = kind, task
        self._device = device
        self._title = title
        self._ready: dict[Layout, Function] = {}

    @property
    def possible(self) -> bool:
        """Whether no attempt to compile a function of this kind has failed."""
        return (self._kind, self._device.type) not in _FAILED

    def ready(self, tensors: Sequence[Tensor]) -> Function | None:
        """The compiled function for tensors laid out like these; None if it cannot be compiled.

        It has been called once, on copies: a function that fails has changed nothing.
        """
        if not self.possible:
            return None
        layout = tuple((t.shape, t.stride(), t.dtype) for t in tensors)
        if layout not in self._ready:
            known = (self._kind, self._task, self._device, _normalised(layout))
            if known not in _KNOWN:
                try:
                    _KNOWN[known] = self._compile(tensors)
                except RecollectError:
                    raise  # the method's own, which the step would raise as well
                except Exception as error:
                    self._give_up(error)
                    return None
            self._ready[layout] = _KNOWN[known]
        return self._ready[layout]

    def _give_up(self, error: Exception) -> None:
        if (shortage := _out_of_memory(error)) is not None:
            raise shortage
        _FAILED.add((self._kind, self._device.type))
        say_slower(
            f"{self._title}: a step could not be compiled and is taken uncompiled, which gives "
            f"the same results more slowly ({reason(error)})"
        )

    def _compile(self, tensors: Sequence[Tensor]) -> Function:
        """Compile for these shapes, and try it; tracing and trying work on copies."""
        # The compiler takes seconds to import, and most runs never need it.
        from torch._inductor import config
        from torch._inductor.compile_fx import compile_fx
        from torch.fx.experimental.proxy_tensor import make_fx

        copies = [_copy(tensor) for tensor in tensors]
        names: tuple[str, ...] = ()

        def traced(*given: Tensor) -> tuple[Tensor, ...]:
            nonlocal names
            found = self._function(*given)
            names = tuple(found)
            return tuple(found.values())

        graph = make_fx(traced)(*copies)
        graph.graph.eliminate_dead_code()
        graph.recompile()
        with torch.no_grad(), config.patch(_settings(graph)):
            compiled: Any = compile_fx(graph, copies)

            def function(*given: Tensor) -> dict[str, Tensor]:
                with torch.no_grad():
                    return dict(zip(names, compiled(*given), strict=True))

            # The last part of compiling happens in the first call.
            function(*copies)
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return function


def _settings(graph: GraphModule) -> dict[str, object]:
    """Settings of the compiler that this graph needs.

    Before version 2.12, torch's compiler fails with an AssertionError when it tries to change the
    order of loops of a kernel that was made of several `_foreach` operations
    (https://github.com/pytorch/pytorch/issues/176591). A graph that updates the weights once
    gives it no reason to; a step that updates them twice, as that of A-GEM, does.
    """
    updates = torch.ops.aten._foreach_add_.List
    count = sum(node.target is updates for node in graph.graph.nodes)
    if count > 1 and torch.__version__ < "2.12":
        return {"loop_ordering_after_fusion": False}
    return {}


def _normalised(layout: Layout) -> Layout:
    """A layout without the strides that no element depends on."""
    return tuple(
        (shape, tuple(s if n > 1 else 0 for s, n in zip(strides, shape, strict=True)), dtype)
        for shape, strides, dtype in layout
    )


def _out_of_memory(error: BaseException | None) -> torch.OutOfMemoryError | None:
    """The lack of memory that an error of the compiler stands for, if it does."""
    while error is not None and not isinstance(error, torch.OutOfMemoryError):
        error = getattr(error, "inner_exception", None) or error.__cause__
    return error


def _copy(tensor: Tensor) -> Tensor:
    """A copy with the same strides, so that what is compiled fits the tensors it will meet."""
    strides = tensor.stride()
    return torch.empty_strided(
        tensor.shape, strides, dtype=tensor.dtype, device=tensor.device
    ).copy_(tensor)
