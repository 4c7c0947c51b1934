"""What a method sees of one step, and what it can do there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from recollect.core.descent import Descent
from recollect.core.gradients import Gradients
from recollect.core.weights import Gradient, Weights
from recollect.errors import InputError
from recollect.memory import Remembered
from recollect.methods.kept import kept_network

__all__ = ["Step"]


class Step:
    """One step of K runs: the batch that arrived, the networks, and draws from memory.

    A method sees one in its `loss` or `learn`. This one only looks, and learns nothing:

    >>> from dataclasses import dataclass
    >>> from recollect import MLP, Fleet, Method
    >>> @dataclass(frozen=True)
    ... class Look(Method):
    ...     name = "look"
    ...     title = "Look"
    ...
    ...     def loss(self, step: Step) -> Tensor:
    ...         (logits,) = step.net(step.x)
    ...         print(step.x.shape, step.y.shape, logits.shape)
    ...         return 0 * logits.sum((1, 2))
    >>> fleet = Fleet(
    ...     [Look()] * 2, lambda: MLP(4, 3), seeds=[0, 1], lr=[0.1] * 2, classes=3, shape=(4,)
    ... )
    >>> _ = fleet.learn(torch.rand(2, 10, 4), torch.zeros(2, 10, dtype=torch.long), batch=10)
    torch.Size([2, 10, 4]) torch.Size([2, 10]) torch.Size([2, 10, 3])
    """

    def __init__(
        self,
        x: Tensor,
        y: Tensor,
        descent: Descent,
        replays: Sequence[Remembered],
        own: Mapping[str, Tensor] | None = None,
        slots: Tensor | None = None,
        luck: Tensor | None = None,
        plain: Tensor | None = None,
    ) -> None:
        self.x = x
        self.y = y
        self.plain = x if plain is None else plain
        self.replays = list(replays)
        self.own = own or {}
        self.slots = torch.zeros_like(y) if slots is None else slots
        self.luck = torch.zeros_like(y) if luck is None else luck
        self.kept: dict[str, Tensor] = {}
        self._descent = descent
        self._drawn = 0

    def net(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """The logits `[K, n, C]` of each part `[K, n, ...]`, as separate passes would give them.

        All parts go through the network in one pass, unless it has a state that one pass for each
        would change otherwise.
        """
        forward = self._descent.forward
        sizes = [part.shape[1] for part in parts]
        if self._descent.network.separate:
            passes = [
                forward(part, (size,)) if size else None
                for part, size in zip(parts, sizes, strict=True)
            ]
            some = next(logits for logits in passes if logits is not None)
            return tuple(some[:, :0] if logits is None else logits for logits in passes)
        logits = forward(torch.cat(parts, 1) if len(parts) > 1 else parts[0], sizes)
        return torch.split_with_sizes(logits, sizes, 1)

    def draw(self) -> Remembered:
        """The next draw from memory; it has no examples while the memory is empty."""
        if self._drawn == len(self.replays):
            raise InputError("the method draws more often than its `draws` says")
        self._drawn += 1
        return self.replays[self._drawn - 1]

    def remember(self, **fields: Tensor) -> None:
        """Give the fields that are kept besides x and y, should this batch enter the memory."""
        self.kept.update({name: value.detach() for name, value in fields.items()})

    def place(self, slots: Tensor) -> None:
        """Say where the batch goes in memory, `[K, B]`, instead of where the rule sends it."""
        self.slots = slots

    def look(self, x: Tensor, kept: str | Weights) -> Tensor:
        """The logits that other weights give, or the networks kept under a name in `own`.

        They are as in a test.
        """
        if isinstance(kept, Weights):
            return self._descent.look(x, kept)
        weights, buffers = kept_network(self.own, kept)
        return self._descent.look(x, weights, buffers)

    def features(self, x: Tensor) -> Tensor:
        """What the last dense layers read of x, as in a test, `[K, n, D]`."""
        return self._descent.features(x)

    def tested(self, x: Tensor) -> Tensor:
        """The logits of x as in a test, `[K, n, C]`, to be differentiated."""
        return self._descent.tested(x)[1]

    def ahead(self, direction: Gradient) -> Weights:
        """The weights that `descend` would lead to; these stay where they are."""
        return self._descent.ahead(direction)

    def begin(self, column: int) -> None:
        """Let this column of the networks compute, if the method has made them of columns."""
        self._descent.network.begin(column)

    def gradient_dots(self, x: Tensor, y: Tensor) -> Tensor:
        """The inner products of the gradients of single examples, `[K, n, n]`."""
        return self._descent.gradient_dots(x, y)

    def gradient(self, loss: Tensor) -> Gradient:
        """The gradient of a loss `[K]` of the passes since the last one was taken."""
        _check_loss(loss, len(self.y))
        return self._descent.gradient(loss)

    def gradients(self, batches: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Gradients]:
        """The cross-entropy `[K, T]` of each of T batches (x, y), and their gradients."""
        return self._descent.gradients(batches)

    def descend(
        self,
        direction: Gradient | Weights,
        scale: Tensor | None = None,
        also: tuple[Gradient, Tensor] | None = None,
    ) -> None:
        """Move the weights against a gradient, by the learning rate (times `scale` `[K]`).

        The same step may go against a second gradient, times a scale `[K]` of its own.
        """
        self._descent.descend(direction, scale, also)

    @property
    def weights(self) -> Weights:
        """The weights of all runs; what is changed in place stays changed."""
        return self._descent.weights


def _check_loss(loss: object, runs: int) -> None:
    """Refuse what cannot be descended on, before the weights move."""
    one_each = "return one value per run, [K], such as recollect.cross_entropy does"
    if not isinstance(loss, Tensor):
        raise InputError(f"the loss is a {type(loss).__name__} and no tensor: {one_each}")
    if loss.shape != (runs,):
        raise InputError(f"the loss has the shape {list(loss.shape)} for {runs} runs: {one_each}")
    if not loss.requires_grad:
        raise InputError(
            "the loss does not depend on any weight that is trained: compute it from what step.net "
            "gives, without detach or no_grad, and freeze not all of the network"
        )
