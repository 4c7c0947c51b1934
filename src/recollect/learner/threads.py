"""One thread for small networks: a second one costs them more than it saves.

Torch's setting is the user's, and other threads have theirs. So what is changed for a step is the
setting of OpenMP and of MKL in the calling thread alone, and it is put back afterwards.
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

__all__ = ["Work", "threads_for"]

SMALL = 2e9
STEP = 3  # the gradient costs about two forward passes more
LOOKED_UP = (nn.Embedding, nn.EmbeddingBag)


def threads_for(operations: float) -> AbstractContextManager[None]:
    """One thread in the calling thread while this lasts, unless there are many operations.

    >>> before = torch.get_num_threads()
    >>> with threads_for(1e6):
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    return _one_thread_here() if operations < SMALL else nullcontext()


@final
class Work:
    """About how many floating-point operations a network takes for an example.

    Counted are the products of layers with their weights, in a pass over a few examples.

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
        """Count in the passes over so many examples that a module makes meanwhile."""
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
        """The threads for a step that learns from so many rows."""
        return threads_for(STEP * rows * self.operations)

    def pass_over(self, rows: int) -> AbstractContextManager[None]:
        """The threads for a forward pass over so many rows."""
        return threads_for(rows * self.operations)


@contextmanager
def _one_thread_here() -> Iterator[None]:
    before = torch.get_num_threads()  # which also lets torch set up a thread that is new to it
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


@cache
def _setters() -> tuple[Callable[[int], object], Callable[[int], int]]:
    """What sets the threads of OpenMP, and of MKL, in the calling thread.

    Torch's own function is the second choice: it changes the setting of threads to come too.
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
