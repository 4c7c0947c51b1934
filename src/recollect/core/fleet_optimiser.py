"""SGD with momentum, Adam and AdamW for all runs of a fleet, with settings per run."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from recollect.core.weights import Gradient, Weights, column, joint_norm

# Settings that may differ between the runs of a fleet, with torch's names and defaults.
DEFAULTS: dict[str, dict[str, float]] = {
    "SGD": {"momentum": 0.0, "weight_decay": 0.0},
    "Adam": {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0},
    "AdamW": {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 1e-2},
}
AVERAGES = {"SGD": ("momentum_buffer",), "Adam": ("exp_avg", "exp_avg_sq")}
AVERAGES["AdamW"] = AVERAGES["Adam"]
STEP = "step"
SURELY = 0.99  # norms that are less far below a limit are compared with all rounding


@dataclass(frozen=True)
class FleetOptimiser:
    """Update the weights of K runs in place, each as torch's optimiser of this name would.

    `settings` are tensors `[K]`; the setting `clip` is the largest norm of a run's gradient.
    `state` has the running averages `[K, ...]` of every trained weight; other weights do not
    change. SGD without momentum has no state. `immediate` means that a step may read values, since
    it is neither recorded nor compiled, nor on another device.

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
    immediate: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        weights: Weights,
        settings: Sequence[Mapping[str, float]],
        nesterov: bool = False,
        trained: Collection[str] | None = None,
    ) -> FleetOptimiser:
        """Create an optimiser; settings that a run does not give have torch's defaults.

        It updates the weights named in `trained`, or all of them if that is None.
        """
        like = next(iter(weights))
        moved = {n: t for n, t in weights.named().items() if trained is None or n in trained}
        plain = name == "SGD" and not any(each.get(n) for each in settings for n in DEFAULTS[name])
        names = [] if plain else list(DEFAULTS[name])
        if any("clip" in each for each in settings):
            names.append("clip")
        presets = {**DEFAULTS[name], "clip": float("inf")}
        columns = {n: [each.get(n, presets[n]) for each in settings] for n in names}
        averages = AVERAGES[name] if name != "SGD" or any(columns.get("momentum", ())) else ()
        state = {f"{n}.{a}": torch.zeros_like(t) for n, t in moved.items() for a in averages}
        if name != "SGD":
            state |= {f"{n}.{STEP}": like.new_zeros(len(settings)) for n in moved}
        tensors = {n: like.new_tensor(c) for n, c in columns.items()}
        return cls(name, nesterov, tensors, state, frozenset(moved))

    @property
    def kind(self) -> Hashable:
        """A key of everything that a compiled step depends on besides `tensors`."""
        return self.name, self.nesterov, *self.settings, *self.state, *sorted(self.trained)

    def descend(self, weights: Weights, direction: Gradient | Weights, rate: Tensor) -> None:
        """Take one step against a gradient with learning rates `[K]`, in place.

        Weights without a gradient do not change.
        """
        gradient = Gradient({n: p for n, p in direction.parts.items() if n in self.trained})
        clip = self.settings.get("clip")
        if self.name == "SGD" and "momentum" not in self.settings:
            if clip is not None:
                gradient = gradient.expanded()
                rate = self._rate_within(rate, gradient, clip)
            weights.add_(gradient, -rate)
            return
        parts = gradient.dense().named()
        if clip is not None:
            parts = clipped(parts, clip)
        move = self._sgd if self.name == "SGD" else self._adam
        named = weights.named()
        for name, part in parts.items():
            move(name, named[name], part, column(rate, part))

    def _rate_within(self, rate: Tensor, gradient: Gradient, most: Tensor) -> Tensor:
        """The learning rates `[K]` with which a plain step is one of a clipped gradient."""
        norms = gradient.part_norms() if self.immediate else None
        if norms is None:
            return rate * share_within(gradient.norm(), most)
        if math.hypot(*(norm.item() for norm in norms)) < SURELY * most.item():
            return rate  # as the exact share would be 1
        return rate * share_within(joint_norm(norms), most)

    def _sgd(self, name: str, weight: Tensor, gradient: Tensor, rate: Tensor) -> None:
        momentum, decay = (column(self.settings[n], weight) for n in ("momentum", "weight_decay"))
        gradient = torch.addcmul(gradient, weight, decay)
        buffer = self.state.get(f"{name}.momentum_buffer")
        if buffer is not None:
            buffer.mul_(momentum).add_(gradient)
            gradient = torch.addcmul(gradient, buffer, momentum) if self.nesterov else buffer
        weight.addcmul_(gradient, -rate)

    def _adam(self, name: str, weight: Tensor, gradient: Tensor, rate: Tensor) -> None:
        beta1, beta2, eps, decay = (
            column(self.settings[n], weight) for n in ("beta1", "beta2", "eps", "weight_decay")
        )
        if self.name == "AdamW":
            weight.mul_(1 - rate * decay)
        else:
            gradient = torch.addcmul(gradient, weight, decay)
        steps = self.state[f"{name}.{STEP}"].add_(1)
        first, second = (self.state[f"{name}.{average}"] for average in AVERAGES["Adam"])
        first.lerp_(gradient, 1 - beta1)
        second.mul_(beta2).addcmul_(gradient, gradient * (1 - beta2))
        steps = column(steps, weight)
        scale = (second / (1 - beta2**steps)).sqrt_().add_(eps)
        weight.addcmul_(first / scale, -rate / (1 - beta1**steps))

    def tensors(self) -> list[Tensor]:
        """Settings and state as a flat list of tensors, for a compiled step."""
        return [*self.settings.values(), *self.state.values()]

    def over(self, tensors: Sequence[Tensor]) -> FleetOptimiser:
        """A copy with other tensors, in the order of `tensors`."""
        each = iter(tensors)
        settings = {name: next(each) for name in self.settings}
        return replace(self, settings=settings, state={name: next(each) for name in self.state})

    def row(self, run: int) -> FleetOptimiser:
        """The optimiser of one run, with a view of its state."""
        here = slice(run, run + 1)
        settings = {name: tensor[here].clone() for name, tensor in self.settings.items()}
        return replace(
            self, settings=settings, state={name: t[here] for name, t in self.state.items()}
        )


def clipped(parts: Mapping[str, Tensor], most: Tensor) -> dict[str, Tensor]:
    """Clip gradients, a mapping of tensors `[K, ...]`, to a total norm of at most `most` `[K]`."""
    share = share_within(Gradient(parts).norm(), most)
    return {name: part * column(share, part) for name, part in parts.items()}


def share_within(norm: Tensor, most: Tensor) -> Tensor:
    """The factors `[K]` that reduce norms `[K]` to at most `most` `[K]`."""
    return (most / (norm + 1e-6)).clamp(max=1)
