"""Run small networks on one CPU thread: more threads cost them more than they save.

`torch.set_num_threads` is left to the user and affects other threads. So only the OpenMP and MKL
settings of the calling thread are changed during a step, and restored afterwards.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import final

import torch
from torch import Tensor, nn

from recollect.core.dense import Dense

SMALL = 2e9
STEP = 3  # a step costs about three forward passes
LOOKED_UP = (nn.Embedding, nn.EmbeddingBag)


def threads_for(operations: float) -> AbstractContextManager[None]:
    """Limit the calling thread to one CPU thread, as a context, unless there are many operations.

    >>> before = torch.get_num_threads()
    >>> with threads_for(1e6):
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    return nullcontext() if operations >= SMALL else one_thread_here()


@contextmanager
def one_thread_here() -> Iterator[None]:
    """Limit the calling thread to one CPU thread, as a context or a decorator.

    In a process forked from one that has used several threads, OpenMP waits for ever for threads
    that are not there, unless it is limited to one.
    """
    before = torch.get_num_threads()  # this initialises torch in a thread
    if before == 1:
        yield
        return
    set_openmp, set_mkl = _setters()
    set_openmp(1)
    mkl = set_mkl(1)
    try:
        yield
    finally:
        set_mkl(mkl)
        set_openmp(before)


@contextmanager
def with_gradients() -> Iterator[None]:
    """Record gradients, as a context or a decorator, also within `no_grad` or `inference_mode`."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def gradients_on() -> bool:
    """Whether `with_gradients` changes nothing here."""
    return torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


@final
class Work:
    """Estimate of the floating-point operations of a network per example.

    It counts the products of layers with their weights, in a pass over a few examples.

    >>> layer = nn.Linear(10, 5)
    >>> with Work.counted(layer, examples=2) as work:
    ...     _ = layer(torch.zeros(2, 10))
    >>> work.operations
    100.0
    """

    def __init__(self) -> None:
        self.operations = 0.0

    @classmethod
    @contextmanager
    def counted(cls, module: nn.Module, examples: int) -> Iterator[Work]:
        """Count the operations of a module in the context, in a pass over `examples` examples."""
        work = cls()

        def note(layer: nn.Module, inputs: object, outputs: object) -> None:
            own = [weight for weight in layer.parameters(recurse=False) if weight.dim() > 1]
            if isinstance(outputs, Tensor) and own and not isinstance(layer, LOOKED_UP):
                channels = max(weight.shape[isinstance(layer, Dense)] for weight in own)
                products = sum(weight.numel() for weight in own) * outputs.numel() / channels
                work.operations += 2 * products / examples

        hooks = [layer.register_forward_hook(note) for layer in module.modules()]
        try:
            yield work
        finally:
            for hook in hooks:
                hook.remove()

    def step(self, rows: int) -> AbstractContextManager[None]:
        """Limit the threads, as a context, for a training step on `rows` rows."""
        return threads_for(STEP * rows * self.operations)

    def pass_over(self, rows: int) -> AbstractContextManager[None]:
        """Limit the threads, as a context, for a forward pass over `rows` rows."""
        return threads_for(rows * self.operations)


@cache
def _setters() -> tuple[Callable[[int], object], Callable[[int], int]]:
    """Return functions that set the OpenMP and MKL threads of the calling thread.

    `torch.set_num_threads` is only a fallback, because it also affects threads started later.
    """
    library = ctypes.CDLL(torch._C.__file__)
    openmp = getattr(library, "omp_set_num_threads", None)
    mkl = getattr(library, "MKL_Set_Num_Threads_Local", None) or (lambda threads: threads)
    if openmp is not None:
        before = torch.get_num_threads()
        openmp(before + 1)
        found = torch.get_num_threads()
        openmp(before)
        if found == before + 1:
            return openmp, mkl
    if "OpenMP" in torch.__config__.parallel_info():
        return torch.set_num_threads, lambda threads: threads
    return lambda threads: None, lambda threads: threads
