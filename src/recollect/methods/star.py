"""STAR: Stability-Inducing Weight Perturbation around a replay method (Eskandar et al., 2025)."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import kl_div

from recollect.core.weights import Gradient, column
from recollect.errors import InputError
from recollect.methods.base import Classifier, Method, Replay, Setup, Spec, Step, hyper
from recollect.methods.derpp import DERpp
from recollect.methods.er import ER
from recollect.methods.er_ace import ERACE

TINY = 1e-20


@dataclass(frozen=True)
class STAR(Classifier):
    """A replay method regularised so that predictions are stable under weight perturbations.

    A copy of the network is perturbed in the direction in which its predictions for a separate
    draw change most: after small random noise (`epsilon`), every weight matrix moves by `gamma`
    times its norm along the gradient of the divergence KL(original || perturbed). `lambda` times
    the gradient of this divergence at the perturbed weights is added to the gradient of the method
    `around`. Only correctly classified examples count.

    >>> STAR(around=2, gamma=0.01, lambda_=0.1).around_method()
    ERACE(unseen=0)
    """

    lambda_: float | Tensor = hyper(0.05, "weight of the divergence at the perturbed weights")
    gamma: float | Tensor = hyper(0.05, "size of the perturbation, relative to each matrix's norm")
    around: int = hyper(3, "replay method: 1 is ER, 2 is ER-ACE, 3 is DER++")
    alpha: float | Tensor = hyper(0.5, "DER++: weight of the distance to the stored logits")
    beta: float | Tensor = hyper(0.5, "DER++: weight of the loss on replayed labels")
    epsilon: float | Tensor = hyper(1e-6, "size of the random noise that starts the perturbation")

    name: ClassVar[str] = "star"
    title: ClassVar[str] = "STAR"
    replay: ClassVar[Replay] = Replay(("x", "y", "logits"), draws=3)

    def around_method(self) -> Method:
        """The replay method that is regularised."""
        if self.around not in (1, 2, 3):
            raise InputError(
                f"around of STAR must be 1 (ER), 2 (ER-ACE) or 3 (DER++), not {self.around}"
            )
        return (ER(), ERACE(), DERpp(self.alpha, self.beta))[self.around - 1]

    def setup(self, spec: Spec) -> Setup:
        """The setup of the replay method, with one more draw."""
        method = self.around_method()
        assert method.replay is not None
        replay = Replay(method.replay.fields, draws=method.replay.draws + 1)
        return Setup(replay=replay, state=method.setup(spec).state)

    def update(self, step: Step) -> Tensor:
        """Take a step of the replay method with the regularisation; returns the loss `[K]`."""
        past, method = step.draw(), self.around_method()
        changed, also = torch.zeros_like(step.model.rate), None
        if past.x.shape[1]:
            changed, gradient = self._at_moved_weights(step, past.x, past.y)
            also = gradient, torch.as_tensor(self.lambda_).to(changed).expand_as(changed)
        loss = method.loss(step)
        step.model.descend(step.model.gradient(loss), also=also)
        return (loss + self.lambda_ * changed).detach()

    def _at_moved_weights(self, step: Step, x: Tensor, y: Tensor) -> tuple[Tensor, Gradient]:
        """The divergence `[K]` at the perturbed weights, and its gradient there.

        All passes use a copy, so the running statistics of the network do not change.
        """
        copy = step.model.copy()
        with torch.no_grad():
            now = copy(x).softmax(2)
        right = now.argmax(2) == y

        def divergence() -> Tensor:
            each = kl_div(copy(x).log_softmax(2), now, reduction="none").sum(2)
            return torch.where(right, each, 0).sum(1) / right.sum(1).clamp(min=1)

        matrices = {n: w for n, w in copy.weights.named().items() if w.dim() > 2}
        trained = {n: w for n, w in matrices.items() if n in step.model.network.trained}
        epsilon, gamma = (
            torch.as_tensor(size).to(step.model.rate) for size in (self.epsilon, self.gamma)
        )
        start = {name: weight.clone() for name, weight in trained.items()}
        for weight, noise in zip(trained.values(), _normal(step, [*trained.values()]), strict=True):
            weight.add_(column(epsilon, weight) * _norm(weight) * noise)
        direction = copy.gradient(divergence()).dense().named()
        for name, weight in trained.items():
            if name in direction:
                along = direction[name] * (_norm(start[name]) / (_norm(direction[name]) + TINY))
                weight.add_(column(gamma, weight) * along)
        changed = divergence()
        return changed.detach(), copy.gradient(changed)


def _normal(step: Step, like: list[Tensor]) -> list[Tensor]:
    """Standard normal numbers in the shapes of some tensors `[K, ...]`."""
    sizes = [math.prod(each.shape[1:]) for each in like]
    batch = step.y.shape[1]
    even = step.random(-(-sum(sizes) // batch)).flatten(1)[:, : sum(sizes)]
    found = torch.special.ndtri(even * (1 - 2**-32) + 2**-33)  # finite: never at 0 or 1
    parts = torch.split_with_sizes(found, sizes, 1)
    return [part.reshape(each.shape).to(each) for part, each in zip(parts, like, strict=True)]


def _norm(weight: Tensor) -> Tensor:
    """The norm of every run's tensor, in a shape that broadcasts."""
    norms: Tensor = weight.flatten(1).norm(dim=1)
    return column(norms, weight)
