"""SGD with momentum, Adam and AdamW for all runs at once, each with settings of its own."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recollect.core.weights import Gradient, Weights

__all__ = ["DEFAULTS", "FleetOptimiser", "clipped"]

# The numbers that runs of a fleet may have each for itself, as torch calls and presets them.
DEFAULTS: dict[str, dict[str, float]] = {
    "SGD": {"momentum": 0.0, "weight_decay": 0.0},
    "Adam": {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0},
    "AdamW": {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 1e-2},
}
AVERAGES = {"SGD": ("momentum_buffer",), "Adam": ("exp_avg", "exp_avg_sq")}
AVERAGES["AdamW"] = AVERAGES["Adam"]
STEP = "step"


@dataclass(frozen=True)
class FleetOptimiser:
    """Moves the weights of K runs as torch's optimiser of this name moves those of one, in place.

    `settings` are tensors `[K]`; with `clip` among them, a run's gradient is first scaled down to
    that norm. `state` has an average `[K, ...]` for every weight that is trained; other weights
    stay. Without momentum, SGD has none.

    >>> weights = Weights({"w": torch.ones(2, 3)})
    >>> sgd = FleetOptimiser.of("SGD", weights, [{"momentum": 0.9}, {"momentum": 0.0}])
    >>> for _ in range(2):
    ...     sgd.descend(weights, Gradient({"w": torch.ones(2, 3)}), torch.tensor([0.1, 0.1]))
    >>> weights.named()["w"][:, 0]
    tensor([0.7100, 0.8000])
    """

    name: str
    nesterov: bool
    settings: Mapping[str, Tensor]
    state: Mapping[str, Tensor]
    trained: frozenset[str]

    @classmethod
    def of(
        cls,
        name: str,
        weights: Weights,
        settings: Sequence[Mapping[str, float]],
        nesterov: bool = False,
        trained: Collection[str] | None = None,
    ) -> FleetOptimiser:
        """The optimiser before its first step; what a run's settings leave out is torch's.

        It moves the weights that are `trained`, or all.
        """
        like = next(iter(weights))
        moved = {n: t for n, t in weights.named().items() if trained is None or n in trained}
        names = list(DEFAULTS[name])
        if any("clip" in each for each in settings):
            names.append("clip")
        presets = {**DEFAULTS[name], "clip": float("inf")}
        columns = {n: [each.get(n, presets[n]) for each in settings] for n in names}
        averages = AVERAGES[name] if name != "SGD" or any(columns["momentum"]) else ()
        state = {f"{n}.{a}": torch.zeros_like(t) for n, t in moved.items() for a in averages}
        if name != "SGD":
            state |= {f"{n}.{STEP}": like.new_zeros(len(settings)) for n in moved}
        tensors = {n: like.new_tensor(c) for n, c in columns.items()}
        return cls(name, nesterov, tensors, state, frozenset(moved))

    @property
    def kind(self) -> Hashable:
        """What a compiled step depends on besides `tensors`."""
        return self.name, self.nesterov, *self.settings, *self.state, *sorted(self.trained)

    def descend(self, weights: Weights, direction: Gradient | Weights, rate: Tensor) -> None:
        """A step against a gradient by a learning rate `[K]`; what has no part in it stays."""
        parts = (direction.dense() if isinstance(direction, Gradient) else direction).named()
        parts = {name: part for name, part in parts.items() if name in self.trained}
        if "clip" in self.settings:
            parts = clipped(parts, self.settings["clip"])
        move = self._sgd if self.name == "SGD" else self._adam
        named = weights.named()
        for name, part in parts.items():
            move(name, named[name], part, _column(rate, part))

    def _sgd(self, name: str, weight: Tensor, gradient: Tensor, rate: Tensor) -> None:
        momentum, decay = (_column(self.settings[n], weight) for n in ("momentum", "weight_decay"))
        gradient = torch.addcmul(gradient, weight, decay)
        buffer = self.state.get(f"{name}.momentum_buffer")
        if buffer is not None:
            buffer.mul_(momentum).add_(gradient)
            gradient = torch.addcmul(gradient, buffer, momentum) if self.nesterov else buffer
        weight.addcmul_(gradient, -rate)

    def _adam(self, name: str, weight: Tensor, gradient: Tensor, rate: Tensor) -> None:
        beta1, beta2, eps, decay = (
            _column(self.settings[n], weight) for n in ("beta1", "beta2", "eps", "weight_decay")
        )
        if self.name == "AdamW":
            weight.mul_(1 - rate * decay)
        else:
            gradient = torch.addcmul(gradient, weight, decay)
        steps = self.state[f"{name}.{STEP}"].add_(1)
        first, second = (self.state[f"{name}.{average}"] for average in AVERAGES["Adam"])
        first.lerp_(gradient, 1 - beta1)
        second.mul_(beta2).addcmul_(gradient, gradient * (1 - beta2))
        steps = _column(steps, weight)
        scale = (second / (1 - beta2**steps)).sqrt_().add_(eps)
        weight.addcmul_(first / scale, -rate / (1 - beta1**steps))

    def tensors(self) -> list[Tensor]:
        """Settings and state as plain tensors, for a step that is compiled."""
        return [*self.settings.values(), *self.state.values()]

    def over(self, tensors: Sequence[Tensor]) -> FleetOptimiser:
        """The same with other tensors, in the order of `tensors`."""
        each = iter(tensors)
        settings = {name: next(each) for name in self.settings}
        return replace(self, settings=settings, state={name: next(each) for name in self.state})

    def row(self, run: int) -> FleetOptimiser:
        """The optimiser of one run, with its state in the same memory."""
        here = slice(run, run + 1)
        settings = {name: tensor[here].clone() for name, tensor in self.settings.items()}
        return replace(
            self, settings=settings, state={name: t[here] for name, t in self.state.items()}
        )


def clipped(parts: Mapping[str, Tensor], most: Tensor) -> dict[str, Tensor]:
    """The parts of a gradient, each `[K, ...]`, scaled down to a norm of at most `most` `[K]`."""
    squares = [part.reshape(len(part), -1).square().sum(1) for part in parts.values()]
    norm = torch.stack(squares).sum(0).sqrt()
    share = (most / (norm + 1e-6)).clamp(max=1)
    return {name: part * _column(share, part) for name, part in parts.items()}


def _column(values: Tensor, like: Tensor) -> Tensor:
    """A number for every run, `[K]`, in a shape that multiplies `[K, ...]`."""
    return values.view(-1, *[1] * (like.dim() - 1))
