"""The networks of K runs as a method uses them: call, differentiate, update, copy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from recollect.core.images import as_input
from recollect.core.losses import CROSS_ENTROPY, Criterion
from recollect.core.network import Network
from recollect.core.per_example import fisher_information, gradient_dots
from recollect.core.torch_optimiser import Optimiser
from recollect.core.weights import Gradient, Gradients, State, Weights, column
from recollect.errors import InputError


@dataclass(eq=False, repr=False)
class Model:
    """K networks with their weights and the buffers of their layers.

    Calling the model is a forward pass in training mode with gradients. `logits` and `features`
    are passes in evaluation mode without gradients. `rate` `[K]` is the learning rate; `descend`
    updates the weights in place, by plain SGD or with an optimiser.

    `zeros` and `snapshot` create tensors for a method's state; `save` writes the networks to it,
    and `stored` is a model of the saved networks, for predictions or averaging.

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
        """The number of runs."""
        return len(self.rate)

    @property
    def feature_size(self) -> int:
        """The number of inputs of the last linear layer; 0 if there is no such layer."""
        return self.network.feature_size

    @property
    def ones(self) -> Tensor:
        """Ones `[K]`, in the type of the weights."""
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
        """Compute the outputs `[K, n, C]` of inputs `[K, n, ...]`, with gradients.

        `parts` are the sizes of the batches concatenated in x; each is batch-normalised on its
        own. With `statistics=False`, running statistics are not updated.
        """
        buffers = self.buffers if statistics else {n: t.clone() for n, t in self.buffers.items()}
        with self.network.mode(training=training):
            outputs = self.network(self._leaves, self._inputs(x), parts, buffers)
        if self.network.first_pass is not None and self.weights is self.network.weights:
            self.network.first_pass.note(x, outputs)
        return outputs

    def with_features(self, x: Tensor, *, training: bool = True) -> tuple[Tensor, Tensor]:
        """Compute features `[K, n, D]` and outputs `[K, n, C]` in one pass, with gradients."""
        with self.network.mode(training=training):
            return self.network.features(self._leaves, self._inputs(x), self.buffers)

    @torch.no_grad()
    def logits(self, x: Tensor) -> Tensor:
        """Compute the outputs `[K, n, C]` in evaluation mode, without gradients."""
        with self.network.mode(training=False):
            return self.network(self.weights, self._inputs(x), buffers=self.buffers)

    @torch.no_grad()
    def features(self, x: Tensor) -> Tensor:
        """Compute the inputs of the last linear layer, `[K, n, D]`, in evaluation mode."""
        with self.network.mode(training=False):
            return self.network.features(self.weights, self._inputs(x), self.buffers)[0]

    def head(self) -> tuple[Tensor, Tensor | None]:
        """The last linear layer's weight `[K, D, C]` and bias `[K, C]`, as views of the weights."""
        names = [*self.network.head_axes]
        if not names:
            raise InputError(
                "this method trains the output layer on its own: use a network whose last layer "
                "is a torch.nn.Linear"
            )
        weight, *bias = (self.weights.named()[name] for name in names)
        transposed = self.network.head_axes[names[0]] == 1
        return weight.mT if transposed else weight, bias[0] if bias else None

    def begin(self, column: int) -> None:
        """Switch to a column or task, if the network has columns or depends on the task."""
        self.network.begin(column)

    # Gradients and updates

    def gradient(self, loss: Tensor) -> Gradient:
        """Differentiate a loss `[K]` of the forward passes since the last gradient."""
        check_loss(loss, self.runs)
        if not loss.requires_grad:
            raise InputError(
                "the loss does not depend on any trainable weight: compute it from the outputs of "
                "step.net, without detach or no_grad, and leave some of the network's parameters "
                "trainable"
            )
        return self.network.gradient(self._leaves, loss)

    def gradients(self, batches: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Gradients]:
        """Compute the losses `[K, T]` of T batches (x, y) and the gradient of each.

        Networks of `Dense` layers need one pass for all batches. Others take one pass per batch,
        since differentiating a joint pass T times would cost T times as much.
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
        """The gradient of a loss with respect to the inputs x."""
        (found,) = torch.autograd.grad(loss.sum(), x)
        self.network.forget()
        return found

    def gradient_dots(self, x: Tensor, y: Tensor) -> Tensor:
        """The inner products of per-example gradients, `[K, n, n]`."""
        self._watched = None
        return gradient_dots(self, self._inputs(x), y)

    def fisher_information(
        self, x: Tensor, classes: Tensor | None = None, draws: Tensor | None = None
    ) -> Weights:
        """The diagonal Fisher information, summed over examples `[K, n, ...]`.

        `classes` `[K, C]` is a mask of the classes in the softmax; with `draws` `[K, n, A]`,
        labels are sampled.
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
        """Take one optimiser step against a gradient, multiplied by `scale` `[K]` if given.

        `also` is a second gradient with its scale `[K]`, added to the first. `share` is a factor
        per weight by which its step is multiplied; weights with a share of zero do not change.
        """
        self._watched = None
        shares = {} if share is None else share.named()
        if self.optimiser is None:
            if also is not None:
                self.weights.add_(also[0], -self.rate * also[1])
            if shares:
                parts = direction.dense().named()
                # A share of zero gives zero even for a gradient that is not finite.
                limited = {
                    n: torch.where(shares[n] == 0, 0.0, parts[n] * shares[n])
                    for n in parts
                    if n in shares
                }
                direction = Weights(parts | limited)
            self.weights.add_(direction, -self.rate if scale is None else -self.rate * scale)
            return
        before = self.weights.snapshot().named() if shares else {}
        if scale is not None:
            direction = direction.dense().times(scale)
        if also is not None:
            first, second = direction.dense().named(), also[0].dense().times(also[1]).named()
            both = {n: part + second[n] for n, part in first.items() if n in second}
            direction = Weights(first | both)
        self.optimiser.descend(self.weights, direction, self.rate)
        now = self.weights.named()
        for name, part in shares.items():
            moved = torch.lerp(before[name], now[name], part)
            now[name].copy_(torch.where(part == 0, before[name], moved))

    # Copies

    def over(self, weights: Weights, buffers: Mapping[str, Tensor] | None = None) -> Model:
        """A model of the same networks with other weights, and other buffers if given."""
        buffers = self.buffers if buffers is None else buffers
        return Model(self.network, weights, buffers, self.rate, criterion=self.criterion)

    def copy(self) -> Model:
        """An independent copy of weights and buffers."""
        buffers = {name: tensor.clone() for name, tensor in self.buffers.items()}
        return self.over(self.weights.snapshot(), buffers)

    def ahead(self, direction: Gradient) -> Model:
        """A copy after one plain SGD step; this model does not change."""
        return self.over(self.weights.snapshot().add_(direction, -self.rate))

    def zeros(self, name: str) -> dict[str, Tensor]:
        """Zeros in the shape of the weights, for a method's state; read by `state.weights`."""
        return {f"{name}.weights.{n}": torch.zeros_like(t) for n, t in self.weights.named().items()}

    def snapshot(self, name: str) -> dict[str, Tensor]:
        """Copies of weights and buffers, for a method's state; see `save` and `stored`."""
        parts = {"weights": self.weights.named(), "buffers": self.buffers}
        return {
            f"{name}.{part}.{n}": t.clone() for part, ts in parts.items() for n, t in ts.items()
        }

    def save(self, state: State, name: str) -> None:
        """Write weights and buffers to a method's state, in place; `stored` reads them."""
        self.stored(state, name).copy_(self)

    def stored(self, state: State, name: str) -> Model:
        """A model with the weights and buffers in a method's state."""
        return self.over(state.weights(name), state.below(f"{name}.buffers."))

    def copy_(self, other: Model) -> None:
        """Copy the weights and buffers of another model, in place."""
        for mine, theirs in self._beside(other):
            mine.copy_(theirs)

    def average_(self, other: Model, share: Tensor | float, *, statistics: bool = True) -> None:
        """Interpolate towards another model by a `share` (a number or `[K]`), in place.

        With `statistics`, buffers are interpolated too; integer buffers are copied.
        """
        weights = zip(self.weights, other.weights, strict=True)
        for mine, theirs in self._beside(other) if statistics else weights:
            if mine.is_floating_point():
                part = torch.as_tensor(share, dtype=mine.dtype, device=mine.device)
                mine.lerp_(theirs, column(part, mine).expand_as(mine))
            else:
                mine.copy_(theirs)

    def _beside(self, other: Model) -> list[tuple[Tensor, Tensor]]:
        weights = zip(self.weights, other.weights, strict=True)
        return [*weights, *((mine, other.buffers[name]) for name, mine in self.buffers.items())]

    @property
    def _leaves(self) -> Weights:
        """The weights as autograd leaves, created at the first pass after a step."""
        if self._watched is None:
            self._watched = self.network.watch(self.weights)
        return self._watched

    def _inputs(self, x: Tensor) -> Tensor:
        return as_input(x, self.network.dtype)


def check_loss(loss: object, runs: int) -> None:
    """Raise an `InputError` unless the loss has one value per run, `[K]`."""
    one_each = "return one value per run, [K], as step.criterion does"
    if not isinstance(loss, Tensor):
        raise InputError(f"the loss is a {type(loss).__name__}, not a tensor: {one_each}")
    if loss.shape == (runs,):
        return
    if loss.dim() > 1 and len(loss) == runs:
        advice = "also average over the examples, as loss.mean(1) does"
    else:
        advice = (
            "average over the examples, as loss.mean(1) does, but not over the first axis, the runs"
        )
    raise InputError(
        f"the loss has the shape {list(loss.shape)} for {runs} runs: {one_each}; {advice}"
    )
