"""Per-example gradients of common layers from a single forward pass of a batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

Rule = Callable[[Tensor], Sequence[Tensor]]


class _Use(NamedTuple):
    # The rule maps the error at the output to per-example gradients of the parameters, and stores
    # `numbers` values per example; it is None if these gradients cannot be computed.
    x: Tensor
    parameters: Sequence[Tensor | None]
    rule: Rule | None
    numbers: int = 0


class Layers(TorchFunctionMode):
    """Context that records how a batch of `count` examples uses parameters in a forward pass.

    Linear layers, 2d convolutions, and batch and layer normalisations are supported: their
    per-example gradients follow from the input of the layer and the error at its output. `known`
    is True if the parameters were used by supported layers only, all of them with the examples
    along the first axis and without mixing examples. `numbers` is the number of values stored per
    example in the backward pass.

    >>> weight = torch.ones(2, 3, requires_grad=True)
    >>> with Layers({"w": weight}, 4) as layers:
    ...     output = functional.linear(torch.ones(4, 3), weight)
    >>> layers.known, dict(layers.gradients(output, torch.ones(4, 2)))["w"].shape
    (True, torch.Size([4, 2, 3]))
    """

    def __init__(self, parameters: Mapping[str, Tensor], count: int) -> None:
        super().__init__()
        self._parameters = dict(parameters)  # keeps them alive, so their ids stay unique
        self._names = {id(tensor): name for name, tensor in self._parameters.items()}
        self._count = count
        self._calls: list[tuple[Sequence[str | None], Rule, GradientEdge]] = []
        self.known = True
        self.numbers = 0

    def gradients(self, output: Tensor, error: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Yield each parameter's name and per-example gradients `[n, ...]`, given an output error.

        One parameter at a time, since all of them together may not fit in memory. The graph is
        retained. Parameters that the output does not depend on are omitted.
        """
        edges = [edge for _, _, edge in self._calls]
        if not edges:
            return
        errors = torch.autograd.grad(output, edges, error, retain_graph=True, allow_unused=True)
        left = Counter(name for names, _, _ in self._calls for name in names)
        found: dict[str, Tensor] = {}
        for (names, rule, _), at_output in zip(self._calls, errors, strict=True):
            parts = [None] * len(names) if at_output is None else rule(at_output)
            for name, part in zip(names, parts, strict=True):
                if name is not None:
                    left[name] -= 1
                    if part is not None:
                        found[name] = found[name] + part if name in found else part
                    if not left[name] and name in found:
                        yield name, found.pop(name)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Call a torch function and record the call if it uses a parameter."""
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if any(id(each) in self._names for each in tree_leaves((args, kwargs))):
            if func in RULES:
                self._note(RULES[func](*args, **kwargs), result)
            elif any(isinstance(t, Tensor) and t.requires_grad for t in tree_leaves(result)):
                self.known = False
        return result

    def _note(self, use: _Use, result: Tensor) -> None:
        if not result.requires_grad:
            return
        first_axes = {len(use.x), len(result)}
        if use.rule is None or id(use.x) in self._names or first_axes != {self._count}:
            self.known = False
            return
        names = [None if p is None else self._names.get(id(p)) for p in use.parameters]
        # Unlike the result, a gradient edge is not affected by later in-place operations.
        self._calls.append((names, use.rule, get_gradient_edge(result)))
        self.numbers += use.numbers


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> _Use:
    def rule(error: Tensor) -> Sequence[Tensor]:
        rows, errors = (t.reshape(len(t), -1, t.shape[-1]) for t in (x.detach(), error))
        return errors.mT @ rows, errors.sum(1)

    return _Use(x, (weight, bias), rule)


def _convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> _Use:
    if isinstance(padding, str) or groups != 1 or x.dim() != 4:
        return _Use(x, (weight, bias), None)
    steps, margins, gaps = (_pair(each) for each in (stride, padding, dilation))

    @cache
    def windows() -> Tensor:
        seen = functional.pad(x.detach(), (margins[1], margins[1], margins[0], margins[0]))
        for axis, size in enumerate(weight.shape[2:]):
            seen = seen.unfold(2 + axis, (size - 1) * gaps[axis] + 1, steps[axis])
            seen = seen[..., :: gaps[axis]]
        return seen.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)  # [n, positions, weights]

    def rule(error: Tensor) -> Sequence[Tensor]:
        errors = error.flatten(2)
        return torch.bmm(errors, windows()).view(-1, *weight.shape), errors.sum(2)

    area = weight[0, 0].numel() / (steps[0] * steps[1])
    return _Use(x, (weight, bias), rule, int(area * x[0].numel()))


def _pair(given: int | Sequence[int]) -> Sequence[int]:
    return (given, given) if isinstance(given, int) else tuple(given) * (2 // len(given))


def _batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> _Use:
    @cache
    def plain() -> Tensor:
        return functional.batch_norm(x.detach(), running_mean, running_var, eps=eps)

    def rule(error: Tensor) -> Sequence[Tensor]:
        return tuple(t.reshape(*t.shape[:2], -1).sum(2) for t in (error * plain(), error))

    return _Use(x, (weight, bias), None if training else rule, x[0].numel())


def _layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> _Use:
    def rule(error: Tensor) -> Sequence[Tensor]:
        plain = functional.layer_norm(x.detach(), normalized_shape, eps=eps)
        between = list(range(1, x.dim() - len(normalized_shape)))
        product = error * plain
        return (product.sum(between), error.sum(between)) if between else (product, error)

    return _Use(x, (weight, bias), rule if x.dim() > len(normalized_shape) else None)


RULES: dict[Callable[..., Any], Callable[..., _Use]] = {
    functional.linear: _linear,
    functional.conv2d: _convolution,
    functional.batch_norm: _batch_norm,
    functional.layer_norm: _layer_norm,
}
