"""Compile a training step, including its gradient, once per input shape."""

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

NO_COMPILER = "steps cannot be compiled, because no C++ compiler was found: install g++ or clang++"
RECORDED = {"cuda"}  # devices on which steps are recorded by default
MANY_STEPS = 20_000
MANY_STEPS_ON_GPU = 40_000

Function = Callable[..., dict[str, Tensor]]
Layout = tuple[tuple[torch.Size, tuple[int, ...], torch.dtype], ...]

_KNOWN: dict[tuple[Hashable, int, torch.device, Layout], Function] = {}
_FAILED: set[tuple[Hashable, str]] = set()


def compiler_exists() -> bool:
    """Whether a C++ compiler is installed, which torch's compiler needs."""
    return any(shutil.which(name) for name in ("g++", "c++", "clang++"))


def compiling_pays(device: torch.device, one_by_one: bool, steps: int, runs: int) -> bool:
    """Whether compiling saves more time than it takes, over this number of steps.

    Dense networks gain on a CPU, where compiling takes about ten seconds, and convolutional ones on
    a GPU, where it takes about a minute.
    """
    if device.type == "cuda":
        return one_by_one and steps * runs >= MANY_STEPS_ON_GPU
    return not one_by_one and steps >= MANY_STEPS


def fast_steps(
    compiled: bool | None, recorded: bool | None, network: Network, steps: int, runs: int
) -> tuple[bool, bool]:
    """Decide whether steps are compiled and recorded; None chooses the faster option."""
    if network.noisy:  # random layers are seeded from outside the step, every time
        return False, False
    device = network.device
    if compiled and not compiler_exists():
        raise InputError(NO_COMPILER)
    if compiled is None:
        compiled = compiling_pays(device, network.strategy == "loop", steps, runs)
        if compiled and not compiler_exists():
            compiled = False
            say_slower(
                "no C++ compiler was found, so steps run uncompiled, which gives the same results "
                "more slowly: install g++ or clang++"
            )
    return compiled, device.type in RECORDED if recorded is None else recorded


class Compiled:
    """A function compiled for each new input shape, including gradients and in-place changes.

    Functions of the same `kind` and `task` are considered equal, so a fleet reuses what an earlier
    one of its kind has compiled. If compiling fails, `possible` becomes false for all functions of
    the kind in this process, and a warning that begins with `title` gives the reason.
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
        """Return the function compiled for tensors of this layout; None if compiling fails.

        It has been called once on copies, so a failure has no side effects.
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
                    raise  # an error of the method, which the step would raise as well
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
            f"{self._title}: a step could not be compiled, so steps run uncompiled, which gives "
            f"the same results more slowly ({reason(error)})"
        )

    def _compile(self, tensors: Sequence[Tensor]) -> Function:
        """Trace and compile for these shapes, and call the result once, all on copies."""
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
    """Return the compiler settings that this graph needs.

    Before version 2.12, torch's compiler fails with an AssertionError when it reorders the loops of
    a kernel fused from several `_foreach` operations
    (https://github.com/pytorch/pytorch/issues/176591). This affects steps that update the weights
    twice, such as those of A-GEM, but not steps that update them once.
    """
    updates = torch.ops.aten._foreach_add_.List
    count = sum(node.target is updates for node in graph.graph.nodes)
    if count > 1 and torch.__version__ < "2.12":
        return {"loop_ordering_after_fusion": False}
    return {}


def _normalised(layout: Layout) -> Layout:
    """Set the strides of axes of size 1 to zero, since they do not matter."""
    return tuple(
        (shape, tuple(s if n > 1 else 0 for s, n in zip(strides, shape, strict=True)), dtype)
        for shape, strides, dtype in layout
    )


def _out_of_memory(error: BaseException | None) -> torch.OutOfMemoryError | None:
    """Return the out-of-memory error behind a compiler error, if there is one."""
    while error is not None and not isinstance(error, torch.OutOfMemoryError):
        error = getattr(error, "inner_exception", None) or error.__cause__
    return error


def _copy(tensor: Tensor) -> Tensor:
    """Copy a tensor with its strides, so that the compiled function fits the original."""
    strides = tensor.stride()
    return torch.empty_strided(
        tensor.shape, strides, dtype=tensor.dtype, device=tensor.device
    ).copy_(tensor)
