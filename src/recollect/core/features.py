"""What a network makes of an example before its last dense layer decides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from recollect.core.dense import Dense
from recollect.errors import InputError

__all__ = ["Features"]


class Features:
    """Lets a module tell, when asked, what its last dense layer reads.

    While they are returned, the module gives them in front of its logits, so they pass through
    whatever calls it.

    >>> module = nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    >>> features = Features(module)
    >>> with features.returned():
    ...     module(torch.zeros(5, 2, 2)).shape
    torch.Size([5, 5])
    >>> features.size, module(torch.zeros(5, 2, 2)).shape
    (3, torch.Size([5, 2]))
    """

    def __init__(self, module: nn.Module) -> None:
        dense = [layer for layer in module.modules() if isinstance(layer, nn.Linear | Dense)]
        self.size = dense[-1].weight.shape[0 if isinstance(dense[-1], Dense) else 1] if dense else 0
        self._module = module
        self._head = dense[-1] if dense else None
        self._read: Tensor | None = None

    @property
    def head(self) -> nn.Module:
        """The last dense layer."""
        if self._head is None:
            raise InputError(
                "the method reads features, which are what the last linear layer of a "
                "network reads, and this network has no such layer"
            )
        return self._head

    def axes(self) -> dict[str, int]:
        """The parameters of the last dense layer, if there is one, with the axis of the classes."""
        if self._head is None:
            return {}
        name = next(n for n, module in self._module.named_modules() if module is self._head)
        axes = {"weight": 2 if isinstance(self._head, Dense) else 1, "bias": 1}
        parts = [part for part, _ in self._head.named_parameters()]
        if not axes.keys() >= set(parts):  # a weight norm, for example, has parts of its own
            return {}
        return {f"{name}.{part}".lstrip("."): axes[part] for part in parts}

    @contextmanager
    def returned(self) -> Iterator[None]:
        """Meanwhile, the module gives its features and logits side by side."""
        noting = self.head.register_forward_pre_hook(self._note)
        showing = self._module.register_forward_hook(self._show)
        try:
            yield
        finally:
            noting.remove()
            showing.remove()
            self._read = None

    def _note(self, head: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._read = inputs[0]

    def _show(self, module: nn.Module, inputs: tuple[Any, ...], logits: Tensor) -> Tensor:
        assert self._read is not None, "the last dense layer took no part"
        return torch.cat([self._read.to(logits.dtype), logits], -1)
