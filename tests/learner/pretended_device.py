"""A device that is not there: counts what `observe` would do on it, with the CPU in its place.

`cpu:0` stands for the device and `cpu` for the host. Tensors are told apart by their storage, so
that the operations, copies and synchronisations of a GPU can be counted, and operations that mix
tensors of both are found, without a GPU. What is created on `tensor.device` counts as the host's,
since torch says `cpu` there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self, final

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

DEVICE = "cpu:0"
LAUNCH, SENT, READ = "launch", "host to device", "device to host"

_READS = {
    Tensor.cpu, Tensor.item, Tensor.tolist, Tensor.numpy, Tensor.__bool__, Tensor.__float__,
    Tensor.__int__, Tensor.__index__,
}  # fmt: skip
_ALLOCATE = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "set_"}


@final
class Pretended:
    """Counts launches and transfers by kind and name, and separately those of recordings."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.recorded: Counter[tuple[str, str]] = Counter()
        self.mixed: set[str] = set()
        self._storages: dict[int, StorageWeakRef] = {}
        self._depth = 0

    def __enter__(self) -> Self:
        self._modes = ExitStack()
        self._modes.enter_context(_Calls(self))
        self._modes.enter_context(_Operations(self))
        return self

    def __exit__(self, *error: object) -> None:
        self._modes.close()

    def of(self, kind: str) -> int:
        """How many there were of a kind outside recordings."""
        return sum(count for (each, _), count in self.counts.items() if each == kind)

    def clear(self) -> None:
        """Begin to count again."""
        self.counts.clear()
        self.recorded.clear()

    @contextmanager
    def replaying(self) -> Iterator[None]:
        """Count what happens meanwhile as part of a recording."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def count(self, kind: str, name: str) -> None:
        (self.recorded if self._depth else self.counts)[kind, name] += 1

    def has(self, tensor: object) -> bool:
        """Whether a tensor lies on the device."""
        if not isinstance(tensor, Tensor):
            return False
        storage = tensor.untyped_storage()
        found = self._storages.get(storage._cdata)
        return found is not None and not found.expired()  # type: ignore[no-untyped-call]

    def put(self, tensor: Tensor) -> Tensor:
        """Note that a tensor lies on the device."""
        storage = tensor.untyped_storage()
        self._storages[storage._cdata] = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
        return tensor


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Every operation below autograd: a launch, if it computes with tensors of the device."""

    def __init__(self, device: Pretended) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._device = device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, device, name = kwargs or {}, self._device, func.overloadpacket.__name__
        tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        here = [device.has(tensor) for tensor in tensors]
        made = str(kwargs.get("device")) == DEVICE
        found = func(*args, **kwargs)
        if name == "_to_copy" and kwargs.get("device") is not None and made != any(here):
            device.count(SENT if made else READ, name)
        elif any(here) and name not in _ALLOCATE and not _is_view(func):
            others = [t for t, on_device in zip(tensors, here, strict=True) if not on_device]
            if name in ("copy_", "_foreach_copy_") and others:
                device.count(SENT if here[0] else READ, name)
                return found
            if any(other.dim() for other in others):
                device.mixed.add(name)
            if name != "_local_scalar_dense":
                device.count(LAUNCH, name)
        elif made and name not in _ALLOCATE:
            device.count(LAUNCH, name)
        on_device = made if name == "_to_copy" and "device" in kwargs else any(here) or made
        if on_device or (name == "_to_copy" and any(here) and kwargs.get("device") is None):
            for tensor in tree_leaves(found):
                if isinstance(tensor, Tensor):
                    device.put(tensor)
        return found


class _Calls(TorchFunctionMode):
    """Calls that copy from one side to the other, which do nothing on a CPU."""

    def __init__(self, device: Pretended) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs, device = kwargs or {}, self._device
        if func in _READS and device.has(args[0]):
            device.count(READ, func.__name__)
            with device.replaying():
                copy = args[0].detach().clone()
            device._storages.pop(copy.untyped_storage()._cdata, None)
            return func(copy, *args[1:], **kwargs)
        if func is Tensor.to:
            given = next((a for a in (*args[1:], kwargs.get("device"))
                          if isinstance(a, torch.device | str)), None)  # fmt: skip
            if given is not None and (str(given) == DEVICE) != device.has(args[0]):
                sent = str(given) == DEVICE
                device.count(SENT if sent else READ, "to")
                types = [a for a in (*args[1:], kwargs.get("dtype")) if isinstance(a, torch.dtype)]
                with device.replaying():
                    copy = args[0].clone()
                    copy = func(copy, *types) if types else copy
                device._storages.pop(copy.untyped_storage()._cdata, None)
                return device.put(copy) if sent else copy
        found = func(*args, **kwargs)
        if func is Tensor.new_tensor and device.has(args[0]):
            device.count(SENT, func.__name__)
            device.put(found)
        if func in (torch.tensor, torch.as_tensor) and str(kwargs.get("device")) == DEVICE:
            device.count(SENT, func.__name__)
            device.put(found)
        return found


def _is_view(func: Any) -> bool:
    return bool(func.is_view) or func.overloadpacket.__name__ in ("_unsafe_view", "detach")
