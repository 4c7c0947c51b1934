"""Execution of a fleet's steps: eagerly, or recorded once (CUDA graph) and replayed."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import torch
from torch import Tensor

from recollect.errors import RecollectError, SlowerWarning

Stacks = dict[str, Tensor]
Step = Callable[..., Tensor]
Sizes = tuple[int, ...]
Shapes = tuple[tuple[int, ...], ...]
T = TypeVar("T")

WARM_UP = 3
DEPTH = 128
MOST_LANES = 16
LONGEST_REASON = 160

_fast_lock = Lock()
_fast: list[bool] = []  # whether they search, of the contexts that are open
_fast_before: list[tuple[bool, bool]] = []


class Execution:
    """Executes steps eagerly or, if `recorded`, records one step and replays it.

    A stack holds the values of one argument of the step for many steps, `[steps, K, ...]`. The
    first steps of each shape are executed eagerly. On a GPU a recording is a CUDA graph: a step
    costs one launch, and the host never waits for it. On other devices, the step is called again on
    the same tensors. If a step cannot be recorded, `recorded` becomes false and a warning that
    begins with `title` gives the reason.
    """

    def __init__(self, step: Step, device: torch.device, title: str, recorded: bool) -> None:
        self._step = step
        self._title = title
        self.recorded = recorded
        self._met: Counter[Shapes] = Counter()
        self._recordings: dict[Shapes, _Recording] = {}
        on_gpu = recorded and device.type == "cuda"
        self._pool = torch.cuda.graph_pool_handle() if on_gpu else None

    def __call__(self, stacks: Stacks, sizes: Sizes) -> Tensor:
        """Take all steps, with draws of these sizes; return the last loss, `[K]`."""
        if not self.recorded:
            return self._plain(stacks)
        shapes = (*(stack.shape[1:] for stack in stacks.values()), sizes)
        steps = len(next(iter(stacks.values())))
        first = min(steps, max(WARM_UP - self._met[shapes], 0))
        self._met[shapes] += steps
        if first:
            loss = self._plain({name: stack[:first] for name, stack in stacks.items()})
            if first == steps:
                return loss
        if shapes not in self._recordings and not self._record(shapes, stacks):
            return self._plain({name: stack[first:] for name, stack in stacks.items()})
        return self._recordings[shapes](stacks, first)

    def _plain(self, stacks: Stacks) -> Tensor:
        if len(next(iter(stacks.values()))) == 1:
            return self._step(**{name: stack.squeeze(0) for name, stack in stacks.items()})
        for tensors in zip(*stacks.values(), strict=True):
            loss = self._step(**dict(zip(stacks, tensors, strict=True)))
        return loss

    def _record(self, shapes: Shapes, stacks: Stacks) -> bool:
        try:
            self._recordings[shapes] = _Recording(self._step, stacks, self._pool)
        except (torch.OutOfMemoryError, RecollectError):
            raise
        except Exception as error:
            self.recorded = False
            say_slower(
                f"{self._title}: a step could not be recorded, so steps run eagerly, which gives "
                f"the same results more slowly ({reason(error)})"
            )
        return self.recorded


class _Recording:
    """A recording of one step on static tensors; one of them is the index of the step."""

    def __init__(self, step: Step, stacks: Stacks, pool: Any) -> None:
        self._step = step
        self._stacks = {name: s.new_empty(DEPTH, *s.shape[1:]) for name, s in stacks.items()}
        some = next(iter(stacks.values()))
        self._number = torch.zeros(1, dtype=torch.int64, device=some.device)
        self._loss = torch.zeros(some.shape[1], device=some.device)
        self._fill(stacks, 0)
        self._graph = None if pool is None else captured(self._once, pool)

    def __call__(self, stacks: Stacks, start: int) -> Tensor:
        """Take the steps from index `start` on."""
        steps = len(next(iter(stacks.values())))
        replay = self._once if self._graph is None else self._graph.replay
        for first in range(start, steps, DEPTH):
            self._fill(stacks, first)
            for _ in range(min(DEPTH, steps - first)):
                replay()
        return self._loss.clone()

    def _fill(self, stacks: Stacks, first: int) -> None:
        for name, stack in stacks.items():
            rows = stack[first : first + DEPTH]
            self._stacks[name][: len(rows)].copy_(rows)
        self._number.zero_()

    def _once(self) -> None:
        now = {name: s.index_select(0, self._number).squeeze(0) for name, s in self._stacks.items()}
        self._loss.copy_(self._step(**now))
        self._number.add_(1)


def captured(
    function: Callable[[], None],
    pool: Any,
    device: torch.device | None = None,
    mode: str = "global",
) -> torch.cuda.CUDAGraph:
    """Capture a function as a CUDA graph; the tensors it writes must outlive the graph.

    Args:
        function: The function to capture.
        pool: The memory pool of the graph.
        device: The device to capture on; by default the current one.
        mode: The capture error mode. During a capture, "global" forbids all threads to synchronise
            or to allocate; "thread_local" only this thread.
    """
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(device):
        aside = None if device is None else _aside(device)
        now = torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph, pool=pool, stream=aside, capture_error_mode=mode):
                function()
        except BaseException:
            _end_capture(now, pool, mode)
            raise
    return graph


@cache
def _aside(device: torch.device) -> torch.cuda.Stream:
    """Return the capture stream of a device; one, as libraries allocate a workspace per stream."""
    stream: Any = torch.cuda.Stream
    found: torch.cuda.Stream = stream(device)
    return found


def _end_capture(stream: torch.cuda.Stream, pool: Any, mode: str) -> None:
    """Clean up after a failed capture, if torch has not done so itself.

    If CUDA cannot end a capture, torch stays on the capture's stream and still allocates from the
    pool of a graph that no longer exists. Its random generator also remains in capture mode, which
    another, successful capture ends.
    """
    torch.cuda.set_stream(stream)
    with suppress(RuntimeError):  # the first fails if torch has ended the capture itself
        torch._C._cuda_endAllocateToPool(stream.device_index, pool)
        torch._C._cuda_releasePool(stream.device_index, pool)
    with suppress(RuntimeError):
        number = torch.zeros(1, device=stream.device)
        with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode=mode):
            number.add_(1)


class Lanes:
    """Runs several functions concurrently: on a GPU, in separate CUDA streams."""

    def __init__(self, device: torch.device, count: int) -> None:
        self._streams: list[torch.cuda.Stream] = []
        if device.type == "cuda" and count > 1:
            stream: Any = torch.cuda.Stream
            self._streams = [stream(device) for _ in range(min(count, MOST_LANES))]

    def __len__(self) -> int:
        return max(len(self._streams), 1)

    def __call__(self, work: Sequence[Callable[[], T]]) -> list[T]:
        """Run the functions, and return their results in order."""
        if not self._streams:
            return [piece() for piece in work]
        main = torch.cuda.current_stream()
        for stream in self._streams:
            stream.wait_stream(main)
        done = []
        try:
            for number, piece in enumerate(work):
                with torch.cuda.stream(self._streams[number % len(self._streams)]):
                    done.append(piece())
        finally:  # a capture can only end after all streams have joined
            for stream in self._streams:
                main.wait_stream(stream)
        return done


def fast_arithmetic(device: torch.device, *, search: bool = False) -> AbstractContextManager[None]:
    """Context that enables TF32 matrix products on a GPU.

    With `search`, cuDNN also times its algorithms for every new shape of a convolution, and then
    uses the fastest. This takes time once, and pays over many steps of the same shape.
    """
    return _fast_on_gpu(search) if device.type == "cuda" else nullcontext()


@contextmanager
def _fast_on_gpu(search: bool) -> Iterator[None]:
    matmul: Any = torch.backends.cuda.matmul
    cudnn: Any = torch.backends.cudnn
    with _fast_lock:
        if not _fast:
            _fast_before.append((matmul.allow_tf32, cudnn.benchmark))
        _fast.append(search)
        matmul.allow_tf32, cudnn.benchmark = True, any(_fast) or _fast_before[0][1]
    try:
        yield
    finally:
        with _fast_lock:  # the settings are global: the last thread to leave restores them
            _fast.remove(search)
            if _fast:
                cudnn.benchmark = any(_fast) or _fast_before[0][1]
            else:
                matmul.allow_tf32, cudnn.benchmark = _fast_before.pop()


@cache
def say_slower(text: str) -> None:
    """Issue a `SlowerWarning` with this text, once per process."""
    # The caller is inside the library, so no stack level would point to the user's code.
    warnings.warn(text, SlowerWarning, stacklevel=2)


def reason(error: BaseException) -> str:
    """Return the type of an error and the first line of its message, shortened.

    >>> reason(RuntimeError("no such kernel\\nand much more"))
    'RuntimeError: no such kernel'
    >>> reason(AssertionError())
    'AssertionError'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 3]}..."
