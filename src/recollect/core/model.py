"""The networks of K runs as a method sees them: call, differentiate, update, copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from recollect.core.fisher import fisher_information
from recollect.core.images import as_input
from recollect.core.losses import CROSS_ENTROPY, Criterion
from recollect.core.network import Network
from recollect.core.optimiser import Optimiser
from recollect.core.per_example import gradient_dots
from recollect.core.weights import Gradient, Gradients, State, Weights, summed
from recollect.errors import InputError

__all__ = ["Model", "check_loss"]


@dataclass(eq=False, repr=False)
class Model:
    """K networks with their weights and the statistics of their layers.

    Calling it is a forward pass in training mode that can be differentiated. `logits` and
    `features` are passes in evaluation mode without gradients. `rate` `[K]` is the learning rate;
    `descend` changes the weights in place, by plain SGD or as an optimiser does.

    `zeros` and `snapshot` make tensors for a method's state; `save` writes the networks there, and
    `stored` is a model made of what was saved, to predict with or to average.

    >>> from torch import nn
    >>> network = Network(lambda: nn.Linear(4, 3), seeds=[0, 1])
    >>> model = Model(network, network.weights, network.buffers, torch.tensor([0.1, 0.2]))
    >>> loss = CROSS_ENTROPY(model(torch.ones(2, 5, 4)), torch.zeros(2, 5, dtype=torch.long))
    >>> model.descend(model.gradient(loss))
    >>> model.logits(torch.ones(2, 5, 4)).shape, model.runs
    (torch.Size([2, 5, 3]), 2)
    """

    network: Network
    weights: Weights
    buffers: Mapping[str, Tensor]
    rate: Tensor
    optimiser: Optimiser | None = None
    criterion: Criterion = CROSS_ENTROPY
    _watched: Weights | None = field(default=None, init=False)

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return len(self.rate)

    @property
    def feature_size(self) -> int:
        """How many features the last linear layer reads; 0 if there is no such layer."""
        return self.network.feature_size

    @property
    def ones(self) -> Tensor:
        """A one for every run, `[K]`, in the type of the weights."""
        return torch.ones_like(self.rate)

    # Forward passes

    def __call__(
        self,
        x: Tensor,
        parts: Sequence[int] = (),
        *,
        training: bool = True,
        statistics: bool = True,
    ) -> Tensor:
        """The outputs `[K, n, C]` of inputs `[K, n, ...]`, to be differentiated.

        `parts` are the sizes of the batches that x is made of, each normalised on its own. Without
        `statistics`, the running ones of normalisation layers stay as they are.
        """
        buffers = self.buffers if statistics else {n: t.clone() for n, t in self.buffers.items()}
        with self.network.mode(training=training):
            return self.network(self._leaves, self._inputs(x), parts, buffers)

    def with_features(self, x: Tensor, *, training: bool = True) -> tuple[Tensor, Tensor]:
        """Features `[K, n, D]` and outputs `[K, n, C]` of one pass, to be differentiated."""
        with self.network.mode(training=training):
            return self.network.features(self._leaves, self._inputs(x), self.buffers)

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """The outputs `[K, n, C]` in evaluation mode, without gradients."""
        with self.network.mode(training=False):
            return self.network(self.weights, self._inputs(x), buffers=self.buffers)

    @torch.no_grad()
    def features(self, x: Tensor) -> Tensor:
        """What the last linear layer reads, `[K, n, D]`, in evaluation mode, without gradients."""
        with self.network.mode(training=False):
            return self.network.features(self.weights, self._inputs(x), self.buffers)[0]

    def head(self) -> tuple[Tensor, Tensor | None]:
        """The last linear layer's weight `[K, D, C]` and bias `[K, C]`, to change in place."""
        names = [*self.network.head_axes]
        if not names:
            raise InputError(
                "the network must end in a linear layer: its outputs are trained alone"
            )
        weight, *bias = (self.weights.named()[name] for name in names)
        transposed = self.network.head_axes[names[0]] == 1
        return weight.mT if transposed else weight, bias[0] if bias else None

    def begin(self, column: int) -> None:
        """Compute with this column or task from now on, if the network has such."""
        self.network.begin(column)

    # Gradients and updates

    def gradient(self, loss: Tensor) -> Gradient:
        """The gradient of a loss `[K]` of the passes since the last one was taken."""
        check_loss(loss, self.runs)
        _check_trained(loss)
        return self.network.gradient(self._leaves, loss)

    def gradients(self, batches: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Gradients]:
        """The criterion `[K, T]` of each of T batches (x, y), and their gradients.

        Dense networks need one pass for all. Others take one for each batch: to differentiate T
        times what all went through together would cost T times as much.
        """
        if self.network.all_dense:
            sizes = [y.shape[1] for _, y in batches]
            outputs = self(torch.cat([x for x, _ in batches], 1), sizes)
            parts = zip(torch.split_with_sizes(outputs, sizes, 1), batches, strict=True)
            losses = torch.stack([self.criterion(part, y) for part, (_, y) in parts], 1)
            products = self.network.products(losses.sum(1))
            return losses.detach(), Gradients.by_part(products, sizes, self.network.trained)
        found = []
        for x, y in batches:
            loss = self.criterion(self(x, (y.shape[1],)), y)
            found.append((loss.detach(), self.gradient(loss)))
        each, gradients = zip(*found, strict=True)
        return torch.stack(each, 1), Gradients.beside(gradients)

    def input_gradient(self, loss: Tensor, x: Tensor) -> Tensor:
        """The gradient of a loss with respect to the inputs that it was computed from."""
        (found,) = torch.autograd.grad(loss.sum(), x)
        self.network.forget()
        return found

    def gradient_dots(self, x: Tensor, y: Tensor) -> Tensor:
        """The inner products of the gradients of single examples, `[K, n, n]`."""
        self._watched = None
        return gradient_dots(self, self._inputs(x), y)

    def fisher_information(
        self, x: Tensor, classes: Tensor | None = None, draws: Tensor | None = None
    ) -> Weights:
        """The diagonal of the Fisher information, summed over examples `[K, n, ...]`.

        Only some `classes` `[K, C]` may compete; with `draws`, answers are drawn.
        """
        self._watched = None
        return fisher_information(self, self._inputs(x), classes, draws)

    def descend(
        self,
        direction: Gradient | Weights,
        scale: Tensor | None = None,
        also: tuple[Gradient | Weights, Tensor] | None = None,
        share: Weights | None = None,
    ) -> None:
        """Move the weights against a gradient (times `scale` `[K]`): one step of the optimiser.

        The same step may go against a second gradient, times a scale `[K]` of its own. With
        `share`, a weight moves by that part of its step; one with a share of zero stays.
        """
        self._watched = None
        if self.optimiser is None:
            if also is not None:
                self.weights.add_(also[0], -self.rate * also[1])
            direction = direction if share is None else summed(direction, None, None, share)
            self.weights.add_(direction, -self.rate if scale is None else -self.rate * scale)
            return
        before = None if share is None else self.weights.snapshot().named()
        if scale is not None or also is not None:
            direction = summed(direction, scale, also, None)
        self.optimiser.descend(self.weights, direction, self.rate)
        if share is not None and before is not None:
            now = self.weights.named()
            for name, part in share.named().items():
                moved = torch.lerp(before[name], now[name], part)
                now[name].copy_(torch.where(part == 0, before[name], moved))

    # Copies

    def over(self, weights: Weights, buffers: Mapping[str, Tensor] | None = None) -> Model:
        """The same networks with other weights, and other statistics if they are given."""
        buffers = self.buffers if buffers is None else buffers
        return Model(self.network, weights, buffers, self.rate, criterion=self.criterion)

    def copy(self) -> Model:
        """A copy of weights and statistics, to change without changing this one."""
        buffers = {name: tensor.clone() for name, tensor in self.buffers.items()}
        return self.over(self.weights.snapshot(), buffers)

    def ahead(self, direction: Gradient) -> Model:
        """The model that `descend` would lead to; this one stays where it is."""
        return self.over(self.weights.snapshot().add_(direction, -self.rate))

    def zeros(self, name: str) -> dict[str, Tensor]:
        """Zeros in the shape of the weights, for a method's state: `state.weights(name)`."""
        return {f"{name}.weights.{n}": torch.zeros_like(t) for n, t in self.weights.named().items()}

    def snapshot(self, name: str) -> dict[str, Tensor]:
        """Copies of weights and statistics, for a method's state: see `save` and `stored`."""
        parts = {"weights": self.weights.named(), "buffers": self.buffers}
        return {
            f"{name}.{part}.{n}": t.clone() for part, ts in parts.items() for n, t in ts.items()
        }

    def save(self, state: State, name: str) -> None:
        """Write weights and statistics to a method's state, in place; `stored` reads them."""
        self.stored(state, name).copy_(self)

    def stored(self, state: State, name: str) -> Model:
        """The model made of the weights and statistics in a method's state."""
        return self.over(state.weights(name), state.below(f"{name}.buffers."))

    def copy_(self, other: Model) -> None:
        """Take over the weights and statistics of another model, in place."""
        for mine, theirs in self._beside(other):
            mine.copy_(theirs)

    def average_(self, other: Model, share: Tensor | float, *, statistics: bool = True) -> None:
        """Move by a `share` (a number or `[K]`) towards another model, in place.

        Statistics move as weights do, unless they are to stay; what layers count in whole numbers
        is copied.
        """
        weights = zip(self.weights, other.weights, strict=True)
        for mine, theirs in self._beside(other) if statistics else weights:
            if mine.is_floating_point():
                part = torch.as_tensor(share, dtype=mine.dtype, device=mine.device)
                mine.lerp_(theirs, part.view(-1, *[1] * (mine.dim() - 1)).expand_as(mine))
            else:
                mine.copy_(theirs)

    def _beside(self, other: Model) -> list[tuple[Tensor, Tensor]]:
        weights = zip(self.weights, other.weights, strict=True)
        return [*weights, *((mine, other.buffers[name]) for name, mine in self.buffers.items())]

    @property
    def _leaves(self) -> Weights:
        """The weights as leaves of a graph, made when the first pass since a descent needs them."""
        if self._watched is None:
            self._watched = self.network.watch(self.weights)
        return self._watched

    def _inputs(self, x: Tensor) -> Tensor:
        return as_input(x, self.network.dtype)


def check_loss(loss: object, runs: int) -> None:
    """Refuse a loss that is not one value per run, `[K]`."""
    one_each = "return one value per run, [K], such as step.criterion does"
    if not isinstance(loss, Tensor):
        raise InputError(f"the loss is a {type(loss).__name__}, not a tensor: {one_each}")
    if loss.shape == (runs,):
        return
    if loss.dim() > 1 and len(loss) == runs:
        advice = "average it over examples too, as each.mean(1) does"
    else:
        advice = (
            "average over examples, as each.mean(1) does, and not over the first axis, the runs"
        )
    raise InputError(
        f"the loss has the shape {list(loss.shape)} for {runs} runs: {one_each}; {advice}"
    )


def _check_trained(loss: Tensor) -> None:
    if not loss.requires_grad:
        raise InputError(
            "the loss does not depend on any weight that is trained: compute it from the outputs "
            "of step.net, without detach or no_grad, and leave a part of the network trainable"
        )
