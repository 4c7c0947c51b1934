"""The weights of a step, their gradients, and the way down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from recollect.core.examples import gradient_dots
from recollect.core.fisher import fisher_information
from recollect.core.gradients import Gradients
from recollect.core.inputs import as_input
from recollect.core.losses import cross_entropy
from recollect.core.network import Network
from recollect.core.optimiser import Optimiser
from recollect.core.weights import Gradient, Weights

__all__ = ["Descent"]


class Descent:
    """What a step does with the networks of K runs: call them, differentiate, and descend.

    `rate` `[K]` is the learning rate; weights are changed in place, by plain descent or as an
    optimiser says.
    """

    def __init__(
        self,
        network: Network,
        weights: Weights,
        buffers: Mapping[str, Tensor],
        rate: Tensor,
        optimiser: Optimiser | None = None,
    ) -> None:
        self.network = network
        self.weights = weights
        self.rate = rate
        self.buffers = buffers
        self._optimiser = optimiser
        self._watched: Weights | None = None

    @property
    def _leaves(self) -> Weights:
        """The weights as leaves of a graph, made when the first pass since a descent needs them."""
        if self._watched is None:
            self._watched = self.network.watch(self.weights)
        return self._watched

    def forward(self, x: Tensor, parts: Sequence[int] = ()) -> Tensor:
        """The logits `[K, n, C]` of inputs `[K, n, ...]`, made of parts of these sizes."""
        inputs = as_input(x, self.network.dtype)
        return self.network(self._leaves, inputs, parts, self.buffers)

    def gradient(self, loss: Tensor, *, keep: bool = False) -> Gradient:
        """The gradient of a loss `[K]`; `keep` if the same passes are differentiated again."""
        return self.network.gradient(self._leaves, loss, keep=keep)

    def gradients(self, batches: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Gradients]:
        """The cross-entropy `[K, T]` of each of T batches (x, y), and their gradients.

        Dense networks need one pass for all. Others take one for each batch: to differentiate T
        times what all went through together would cost T times as much.
        """
        if self.network.all_dense:
            sizes = [y.shape[1] for _, y in batches]
            logits = self.forward(torch.cat([x for x, _ in batches], 1), sizes)
            parts = zip(torch.split_with_sizes(logits, sizes, 1), batches, strict=True)
            losses = torch.stack([cross_entropy(part, y) for part, (_, y) in parts], 1)
            return losses.detach(), Gradients.by_part(self.network, losses.sum(1), sizes)
        found = []
        for x, y in batches:
            loss = cross_entropy(self.forward(x, (y.shape[1],)), y)
            found.append((loss.detach(), self.gradient(loss)))
        each, gradients = zip(*found, strict=True)
        return torch.stack(each, 1), Gradients.beside(gradients)

    def descend(
        self,
        direction: Gradient | Weights,
        scale: Tensor | None = None,
        also: tuple[Gradient, Tensor] | None = None,
    ) -> None:
        """Take `rate` (times `scale` `[K]`) of a gradient away from the weights.

        The step may go against a second gradient as well, times a scale `[K]` of its own.
        """
        if self._optimiser is not None:
            if also is not None:
                direction = direction.dense() if isinstance(direction, Gradient) else direction
                direction = direction.add_(*also)
            self._optimiser.descend(direction, scale)
        else:
            self.weights.add_(direction, -self.rate if scale is None else -self.rate * scale)
            if also is not None:
                self.weights.add_(also[0], -self.rate * also[1])
        self._watched = None

    @torch.no_grad()
    def look(
        self, x: Tensor, weights: Weights | None = None, buffers: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """The logits of inputs as in a test, of these networks or of others of their kind."""
        inputs = as_input(x, self.network.dtype)
        with self.network.testing():
            return self.network(
                self.weights if weights is None else weights,
                inputs,
                buffers=self.buffers if buffers is None else buffers,
            )

    @torch.no_grad()
    def features(self, x: Tensor) -> Tensor:
        """What the last dense layers read of inputs, as in a test, `[K, n, D]`."""
        with self.network.testing():
            inputs = as_input(x, self.network.dtype)
            return self.network.features(self.weights, inputs, self.buffers)[0]

    def tested(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features `[K, n, D]` and logits `[K, n, C]` as in a test, to be differentiated."""
        with self.network.testing():
            inputs = as_input(x, self.network.dtype)
            return self.network.features(self._leaves, inputs, self.buffers)

    def ahead(self, direction: Gradient) -> Weights:
        """Where `descend` would lead; the weights stay where they are."""
        return self.weights.snapshot().add_(direction, -self.rate)

    def fisher_information(
        self, x: Tensor, classes: Tensor | None = None, draws: Tensor | None = None
    ) -> Weights:
        """The Fisher information of the weights, summed over examples `[K, n, ...]`.

        Only some `classes` `[K, C]` may compete; with `draws`, answers are drawn.
        """
        inputs = as_input(x, self.network.dtype)
        found = fisher_information(self.network, self.weights, self.buffers, inputs, classes, draws)
        self._watched = None
        return found

    def gradient_dots(self, x: Tensor, y: Tensor) -> Tensor:
        """The inner products of the gradients of single examples, `[K, n, n]`."""
        inputs = as_input(x, self.network.dtype)
        dots = gradient_dots(self.network, self.weights, self.buffers, inputs, y)
        self._watched = None
        return dots
