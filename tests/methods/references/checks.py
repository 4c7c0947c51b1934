"""Fixed random tensors and a check of gradients, for the tests of the references."""

from collections.abc import Callable

import torch
from torch import Tensor


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def check_gradient(value: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """The gradient of `value` at `at`, after comparison with central differences."""
    leaf = at.clone().requires_grad_(True)
    (gradient,) = torch.autograd.grad(value(leaf), leaf)
    step = 1e-6
    flat = at.flatten()
    for i in range(flat.numel()):
        up, down = flat.clone(), flat.clone()
        up[i] += step
        down[i] -= step
        with torch.no_grad():
            slope = (value(up.view_as(at)) - value(down.view_as(at))) / (2 * step)
        assert abs(float(slope) - float(gradient.flatten()[i])) < 1e-7
    return gradient
