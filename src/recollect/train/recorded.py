"""Record a function of tensors for each frequent input shape (CUDA graph), and replay it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from functools import partial
from threading import Lock
from typing import Any, final

import torch
from torch import Tensor, nn

from recollect.errors import InputError
from recollect.train.execution import WARM_UP, captured, reason, say_slower
from recollect.train.fixed_inputs import FixedInputs, Inputs, sent

MOST = 8
LARGEST = 512
MANY = 1000
OFTEN, FEW = 10, 4

Function = Callable[[Inputs], dict[str, Tensor]]
Then = Callable[[Inputs, dict[str, Tensor]], None]

# Torch has one capture stream, so only one thread can capture at a time.
_capturing = Lock()


@final
class Recorded:
    """Calls a function of tensors, and records it for frequent input shapes.

    The function returns named tensors and may change others in place. `follow` calls `then` with
    the inputs and outputs of the last call, which lie on the device; the given inputs may lie on
    the host. The first calls with a shape run eagerly. On a GPU a recording is two CUDA graphs,
    elsewhere another call on the same tensors. The returned tensors are valid until the next call.

    There are at most `MOST` recordings. The least recently used one is evicted for a new one, and
    its shape must then occur twice as often before it is recorded again, so that ever changing
    batch sizes do not cost a recording each. Batches of more than `LARGEST` examples are not
    recorded: launches are a small part of their time, and a recording would need much memory.

    If recording fails, also for lack of memory, `possible` becomes false, a warning that begins
    with `title` gives the reason, and all calls run eagerly. The same happens if attributes of the
    `module` change between calls, such as a call counter, since a graph would ignore them.
    """

    def __init__(
        self, function: Function, then: Then, module: nn.Module, device: torch.device, title: str,
        what: str,
    ) -> None:  # fmt: skip
        self._function, self._then = function, then
        self._module, self._device = module, device
        self._attributes: dict[str, object] | None = None
        self._title, self._what = title, what
        self.possible = True
        self._calls: Counter[Hashable] = Counter()
        self._needed: dict[Hashable, int] = {}
        self._recordings: dict[Hashable, _Recording] = {}  # the one used last is at the end
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None
        self._last: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._recordings)

    def __call__(self, kind: Hashable, inputs: Inputs) -> dict[str, Tensor]:
        """Call the function on named inputs, of which the first is a batch `[K, B, ...]`.

        `kind` identifies everything that the function depends on besides tensors.
        """
        batch = next(iter(inputs.values()))
        if not self.possible or max(batch.shape[1:2], default=0) > LARGEST:
            return self._eagerly(inputs)
        if self._attributes is None:
            self._attributes = _attributes(self._module)
        layouts = ((name, t.shape, t.stride(), t.dtype) for name, t in inputs.items())
        key = (kind, *layouts)
        recording = self._recordings.pop(key, None)
        if recording is None:
            if len(self._calls) > MANY:
                self._calls.clear()
            self._calls[key] += 1
            if self._calls[key] <= self._needed.get(key, WARM_UP):
                return self._eagerly(inputs)
            recording = self._record(key, inputs)
            if recording is None:
                return self._eagerly(inputs)
        self._recordings[key] = recording
        self._last = recording.follow
        return recording(inputs)

    def follow(self) -> None:
        """Call `then` with the inputs and outputs of the last call, once."""
        last, self._last = self._last, None
        if last is not None:
            last()

    def wipe(self) -> None:
        """Overwrite the inputs and outputs of all recordings with zeros."""
        self._last = None
        for recording in self._recordings.values():
            recording.wipe()

    def _eagerly(self, inputs: Inputs) -> dict[str, Tensor]:
        inputs = sent(inputs, self._device)
        found = self._function(inputs)
        self._last = partial(self._then, inputs, found)
        return found

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
            found = _Recording(self._function, self._then, inputs, self._pool, self._device)
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
    """A recording of one call, and of what follows it, on inputs at fixed addresses."""

    def __init__(
        self, function: Function, then: Then, inputs: Inputs, pool: Any, device: torch.device
    ) -> None:
        self._function, self._then = function, then
        self._inputs = FixedInputs(inputs, device, pinned=True)
        self._found: dict[str, Tensor] = {}
        self._graphs: tuple[torch.cuda.CUDAGraph, torch.cuda.CUDAGraph] | None = None
        if pool is not None:
            self._inputs.fill(inputs)  # the function may read their values during the capture
            with _capturing:
                first = captured(self._once, pool, device, mode="thread_local")
                self._graphs = first, captured(self._follow, pool, device, mode="thread_local")

    def __call__(self, inputs: Inputs) -> dict[str, Tensor]:
        self._inputs.fill(inputs)
        if self._graphs is None:
            self._once()
        else:
            self._graphs[0].replay()
        return self._found

    def follow(self) -> None:
        if self._graphs is None:
            self._follow()
        else:
            self._graphs[1].replay()

    def wipe(self) -> None:
        self._inputs.wipe()
        for tensor in self._found.values():
            tensor.zero_()

    def _once(self) -> None:
        found = self._function(self._inputs.tensors)
        if not self._found:  # clones, so that outputs never alias other tensors
            self._found = {name: tensor.clone() for name, tensor in found.items()}
        else:  # overwrite as a graph does, so that CPU tests find stale references too
            for name, tensor in found.items():
                self._found[name].copy_(tensor)

    def _follow(self) -> None:
        self._then(self._inputs.tensors, self._found)
