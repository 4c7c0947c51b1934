"""One of torch's optimisers, for the weights of a fleet of one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self, final

import torch
from torch import Tensor, nn

from recollect.core.fleet_optimiser import clipped
from recollect.core.weights import Gradient, Weights
from recollect.errors import InputError, unknown_name

__all__ = ["TorchOptimiser", "torch_optimisers"]

# These ask for the loss again, for sparse gradients, or for matrices alone.
UNFIT = {"Optimizer", "LBFGS", "SparseAdam", "Muon"}


def torch_optimisers() -> dict[str, type[torch.optim.Optimizer]]:
    """Those of torch's optimisers that need no more than gradients, by name."""
    found = {name: getattr(torch.optim, name) for name in dir(torch.optim) if name not in UNFIT}
    return {
        name: kind
        for name, kind in found.items()
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
    }


@final
class TorchOptimiser:
    """Moves the weights of one run as torch's optimiser of this name does, in place.

    Torch makes its `state` with the first step, so it has none before, and `restore` goes back.
    `clip` is the largest norm of a gradient.

    >>> weights = Weights({"w": torch.ones(1, 2)})
    >>> adam = TorchOptimiser("adam", weights, {"amsgrad": True})
    >>> adam.descend(weights, Gradient({"w": torch.tensor([[1.0, 0.0]])}), torch.tensor([0.1]))
    >>> weights.named()["w"], sorted(adam.state)
    (tensor([[0.9000, 1.0000]]), ['w.exp_avg', 'w.exp_avg_sq', 'w.max_exp_avg_sq', 'w.step'])
    """

    def __init__(
        self, name: str, weights: Weights, options: Mapping[str, Any], clip: float | None = None
    ) -> None:
        kinds = {known.lower(): kind for known, kind in torch_optimisers().items()}
        if name.lower() not in kinds:
            raise unknown_name("optimiser", name, torch_optimisers())
        self._parameters = {n: nn.Parameter(t) for n, t in weights.only().items()}
        self._clip = None if clip is None else next(iter(weights)).new_tensor([clip])
        if "lr" in options:
            raise InputError("the learning rate is given as lr=..., not among the options")
        try:
            # The rate comes with every step; some versions of torch want one here too.
            given: dict[str, Any] = {"lr": 1.0, **options}
            self._torch = kinds[name.lower()](self._parameters.values(), **given)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} cannot be used like this: {error}") from None

    def descend(self, weights: Weights, direction: Gradient | Weights, rate: Tensor) -> None:
        """A step against a gradient by a learning rate `[1]`; what has no part in it stays.

        The weights are those that it was made with.
        """
        parts = (direction.dense() if isinstance(direction, Gradient) else direction).named()
        if self._clip is not None:
            parts = clipped(parts, self._clip)
        for name, parameter in self._parameters.items():
            part = parts.get(name)
            parameter.grad = None if part is None else part.squeeze(0)
        for group in self._torch.param_groups:
            group["lr"] = float(rate)
        self._torch.step()

    @property
    def state(self) -> dict[str, Tensor]:
        """Moments, counts of steps and the like, by weight and name."""
        return {
            f"{name}.{key}": value
            for name, parameter in self._parameters.items()
            for key, value in self._torch.state.get(parameter, {}).items()
            if isinstance(value, Tensor)
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go back to a state that there was before."""
        numbers = {name: number for number, name in enumerate(self._parameters)}
        found: dict[int, dict[str, Tensor]] = {}
        for full, value in state.items():
            name, _, key = full.rpartition(".")
            if name not in numbers:
                raise InputError(f"the optimiser's state has {full}, which is not a weight")
            # Torch counts steps on the CPU, and sees to the device of everything else.
            value = value.cpu() if key == "step" else value
            found.setdefault(numbers[name], {})[key] = value.clone()
        groups = self._torch.state_dict()["param_groups"]
        self._torch.load_state_dict({"state": found, "param_groups": groups})

    @property
    def kind(self) -> Hashable:
        """Nothing: torch's steps are not compiled."""
        return None

    def tensors(self) -> list[Tensor]:
        """None, for the same reason."""
        return []

    def over(self, tensors: Sequence[Tensor]) -> Self:
        """The same."""
        return self

    def row(self, run: int) -> Self:
        """The same: there is one run."""
        return self
