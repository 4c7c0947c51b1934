"""Record a function of tensors for each frequent input shape (CUDA graph), and replay it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from threading import Lock
from typing import Any, final

import torch
from torch import Tensor, nn

from recollect.errors import InputError
from recollect.train.execution import WARM_UP, captured, reason, say_slower

MOST = 8
LARGEST = 512
MANY = 1000
OFTEN, FEW = 10, 4

Inputs = Sequence[Tensor | None]
Function = Callable[..., dict[str, Tensor]]

# Torch has one capture stream, so only one thread can capture at a time.
_capturing = Lock()


@final
class Recorded:
    """Calls a function of tensors, and records it for frequent input shapes.

    The function returns named tensors and may change others in place. The first calls with a shape
    run eagerly. On a GPU a recording is a CUDA graph, elsewhere another call on the same tensors.
    The returned tensors are valid until the next call.

    There are at most `MOST` recordings. The least recently used one is evicted for a new one, and
    its shape must then occur twice as often before it is recorded again, so that ever changing
    batch sizes do not cost a recording each. Batches of more than `LARGEST` examples are not
    recorded: launches are a small part of their time, and a recording would need much memory.

    If recording fails, also for lack of memory, `possible` becomes false, a warning that begins
    with `title` gives the reason, and all calls run eagerly. The same happens if attributes of the
    `module` change between calls, such as a call counter, since a graph would ignore them.
    """

    def __init__(
        self, function: Function, module: nn.Module, device: torch.device, title: str, what: str
    ) -> None:
        self._function, self._module, self._device = function, module, device
        self._attributes: dict[str, object] | None = None
        self._title, self._what = title, what
        self.possible = True
        self._calls: Counter[Hashable] = Counter()
        self._needed: dict[Hashable, int] = {}
        self._recordings: dict[Hashable, _Recording] = {}  # the one used last is at the end
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def __len__(self) -> int:
        return len(self._recordings)

    def __call__(self, kind: Hashable, inputs: Inputs) -> dict[str, Tensor]:
        """Call the function on inputs, of which the first is a batch `[K, B, ...]`.

        `kind` identifies everything that the function depends on besides tensors.
        """
        batch = inputs[0]
        if not self.possible or (batch is not None and max(batch.shape[1:2], default=0) > LARGEST):
            return self._function(*inputs)
        if self._attributes is None:
            self._attributes = _attributes(self._module)
        shapes = (None if t is None else (t.shape, t.stride(), t.dtype) for t in inputs)
        key = (kind, *shapes)
        recording = self._recordings.pop(key, None)
        if recording is None:
            if len(self._calls) > MANY:
                self._calls.clear()
            self._calls[key] += 1
            if self._calls[key] <= self._needed.get(key, WARM_UP):
                return self._function(*inputs)
            recording = self._record(key, inputs)
            if recording is None:
                return self._function(*inputs)
        self._recordings[key] = recording
        return recording(inputs)

    def wipe(self) -> None:
        """Overwrite the inputs and outputs of all recordings with zeros."""
        for recording in self._recordings.values():
            recording.wipe()

    def _record(self, key: Hashable, inputs: Inputs) -> _Recording | None:
        while len(self._recordings) >= MOST:
            oldest = next(iter(self._recordings))
            self._calls[oldest] = 0
            self._needed[oldest] *= 2
            if self._device.type == "cuda":  # the graph may still be running
                torch.cuda.synchronize(self._device)
            del self._recordings[oldest]
        try:
            self._check_attributes()
            found = _Recording(self._function, inputs, self._pool, self._device)
        except Exception as error:
            self.possible = False
            self._recordings.clear()
            say_slower(
                f"{self._title}: a {self._what} could not be recorded, so {self._what}s run "
                f"eagerly, which gives the same results more slowly ({reason(error)})"
            )
            return None
        self._needed.setdefault(key, WARM_UP)
        return found

    def _check_attributes(self) -> None:
        before, now = self._attributes or {}, _attributes(self._module)
        for name in before | now:
            if before.get(name) != now.get(name):
                raise InputError(f"the network's attribute {name} changes from call to call")


def _attributes(module: nn.Module) -> dict[str, object]:
    """Return the plain attributes (numbers, strings, flags) of all layers, except `training`."""
    return {
        f"{path}.{name}" if path else name: value
        for path, layer in module.named_modules()
        for name, value in vars(layer).items()
        if name != "training" and isinstance(value, int | float | str | None)
    }


@final
class Frequent:
    """Finds frequent batch sizes: the first four that occurred more than ten times.

    >>> frequent = Frequent()
    >>> [frequent(32) for _ in range(12)].index(True), frequent(5)
    (10, False)
    """

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._chosen: set[int] = set()

    def __call__(self, size: int) -> bool:
        """Count a batch of this size, and return whether the size is frequent."""
        self._counts[size] += 1
        if self._counts[size] > OFTEN and len(self._chosen) < FEW:
            self._chosen.add(size)
        return size in self._chosen


class _Recording:
    """A recording of one call on static tensors."""

    def __init__(self, function: Function, inputs: Inputs, pool: Any, device: torch.device) -> None:
        self._function = function
        self._inputs = [None if each is None else torch.empty_like(each) for each in inputs]
        self._groups: dict[torch.dtype, tuple[list[int], list[Tensor]]] = {}
        for number, mine in enumerate(self._inputs):
            if mine is not None:
                numbers, tensors = self._groups.setdefault(mine.dtype, ([], []))
                numbers.append(number)
                tensors.append(mine)
        self._found: dict[str, Tensor] = {}
        self._graph: torch.cuda.CUDAGraph | None = None
        if pool is not None:
            self._fill(inputs)  # the function may read their values during the capture
            with _capturing:
                self._graph = captured(self._once, pool, device, mode="thread_local")

    def __call__(self, inputs: Inputs) -> dict[str, Tensor]:
        self._fill(inputs)
        if self._graph is None:
            self._once()
        else:
            self._graph.replay()
        return self._found

    def wipe(self) -> None:
        for tensor in (*self._inputs, *self._found.values()):
            if tensor is not None:
                tensor.zero_()

    def _fill(self, inputs: Inputs) -> None:
        for numbers, mine in self._groups.values():  # one launch for all tensors of a type
            given = [tensor for number in numbers if (tensor := inputs[number]) is not None]
            torch._foreach_copy_(mine, given)

    def _once(self) -> None:
        found = self._function(*self._inputs)
        if not self._found:  # clones, so that outputs never alias other tensors
            self._found = {name: tensor.clone() for name, tensor in found.items()}
        else:  # overwrite as a graph does, so that CPU tests find stale references too
            for name, tensor in found.items():
                self._found[name].copy_(tensor)
