"""Use any of torch's optimisers for a single run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

from recollect.core.fleet_optimiser import FleetOptimiser, clipped
from recollect.core.weights import Gradient, Weights
from recollect.errors import InputError, unknown_name

# They need to re-evaluate the loss, sparse gradients, or matrices only.
UNFIT = {"Optimizer", "LBFGS", "SparseAdam", "Muon"}


def torch_optimisers() -> dict[str, type[torch.optim.Optimizer]]:
    """The optimisers of torch that only need gradients, by name."""
    found = {name: getattr(torch.optim, name) for name in dir(torch.optim) if name not in UNFIT}
    return {
        name: kind
        for name, kind in found.items()
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
    }


@final
class TorchOptimiser:
    """Update the weights of one run with torch's optimiser of this name, in place.

    Torch creates the `state` at the first step; before, it is empty. `restore` loads an earlier
    state. `clip` is the largest norm of a gradient.

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
            raise InputError("pass the learning rate as lr=..., not among the optimiser's options")
        try:
            # Every step sets the learning rate; some versions of torch require one here too.
            given: dict[str, Any] = {"lr": 1.0, **options}
            self._torch = kinds[name.lower()](self._parameters.values(), **given)
        except (TypeError, ValueError) as error:
            raise InputError(f"torch's {name} does not accept these options: {error}") from None

    def descend(self, weights: Weights, direction: Gradient | Weights, rate: Tensor) -> None:
        """Take one step against a gradient with a learning rate `[1]`, in place.

        `weights` must be those that the optimiser was created with. Weights without a gradient do
        not change.
        """
        parts = direction.dense().named()
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
        """The optimiser's tensors, such as moments and step counts, named `weight.name`."""
        return {
            f"{name}.{key}": value
            for name, parameter in self._parameters.items()
            for key, value in self._torch.state.get(parameter, {}).items()
            if isinstance(value, Tensor)
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load a state that `state` returned earlier."""
        numbers = {name: number for number, name in enumerate(self._parameters)}
        found: dict[int, dict[str, Tensor]] = {}
        for full, value in state.items():
            name, _, key = full.rpartition(".")
            if name not in numbers:
                raise InputError(
                    f"the optimiser's state has {full!r}, but the network has no trained weight "
                    f"{name!r}: load the state with the network that it was saved with"
                )
            # Torch counts steps on the CPU, and moves everything else to the device itself.
            value = value.cpu() if key == "step" else value
            found.setdefault(numbers[name], {})[key] = value.clone()
        groups = self._torch.state_dict()["param_groups"]
        self._torch.load_state_dict({"state": found, "param_groups": groups})


Optimiser = FleetOptimiser | TorchOptimiser
