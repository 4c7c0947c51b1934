"""One of torch's optimisers, for the weights of a fleet of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from recollect.core.dense import dense
from recollect.core.weights import Gradient, Weights
from recollect.errors import InputError, unknown_name

__all__ = ["Optimiser", "optimisers"]

# These ask for the loss again, for sparse gradients, or for matrices alone.
UNFIT = {"Optimizer", "LBFGS", "SparseAdam", "Muon"}


def optimisers() -> dict[str, type[torch.optim.Optimizer]]:
    """Those of torch's optimisers that need no more than gradients, by name."""
    found = {name: getattr(torch.optim, name) for name in dir(torch.optim) if name not in UNFIT}
    return {
        name: kind
        for name, kind in found.items()
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
    }


class Optimiser:
    """Moves the weights of one run as the optimiser of this name does, in place.

    >>> weights = Weights({"w": torch.ones(1, 2)})
    >>> adam = Optimiser("adam", weights, lr=0.1)
    >>> adam.descend(weights, Gradient({"w": torch.tensor([[1.0, 0.0]])}), torch.tensor([0.1]))
    >>> weights.named()["w"], sorted(adam.tensors())
    (tensor([[0.9000, 1.0000]]), ['w.exp_avg', 'w.exp_avg_sq', 'w.step'])
    """

    def __init__(
        self, name: str, weights: Weights, lr: float, options: Mapping[str, Any] | None = None
    ) -> None:
        kinds = {known.lower(): kind for known, kind in optimisers().items()}
        if name.lower() not in kinds:
            raise unknown_name("optimiser", name, optimisers())
        self._parameters = {n: nn.Parameter(t) for n, t in weights.only().items()}
        try:
            given: dict[str, Any] = {"lr": lr, **(options or {})}
            self._torch = kinds[name.lower()](self._parameters.values(), **given)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} cannot be used like this: {error}") from None

    def descend(self, weights: Weights, direction: Gradient | Weights, rate: Tensor) -> None:
        """A step against a gradient; what has no part in it stays.

        The weights and their rate are those that it was made with.
        """
        parts = direction.named() if isinstance(direction, Weights) else direction.parts
        for name, parameter in self._parameters.items():
            part = parts.get(name)
            parameter.grad = None if part is None else dense(part).squeeze(0)
        self._torch.step()

    def tensors(self) -> dict[str, Tensor]:
        """Its state, such as moments and counts of steps, by weight and name."""
        return {
            f"{name}.{key}": value
            for name, parameter in self._parameters.items()
            for key, value in self._torch.state.get(parameter, {}).items()
            if isinstance(value, Tensor)
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go back to a state that `tensors` returned."""
        numbers = {name: number for number, name in enumerate(self._parameters)}
        state: dict[int, dict[str, Tensor]] = {}
        for full, value in tensors.items():
            name, _, key = full.rpartition(".")
            if name not in numbers:
                raise InputError(f"the optimiser's state has {full}, which is not a weight")
            # Torch counts steps on the CPU, and sees to the device of everything else.
            value = value.cpu() if key == "step" else value
            state.setdefault(numbers[name], {})[key] = value.clone()
        groups = self._torch.state_dict()["param_groups"]
        self._torch.load_state_dict({"state": state, "param_groups": groups})
