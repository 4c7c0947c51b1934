"""A batched solver for small quadratic programmes with a lower bound."""

from __future__ import annotations

import torch
from torch import Tensor

FEW = 5
ITERATIONS = 40
SHRINK = 0.1
SAFE = 0.99
RIDGE = 1e-13


def lowest(matrix: Tensor, vector: Tensor, bound: Tensor) -> Tensor:
    """Minimise v.Hv / 2 + f.v subject to v >= bound, for every run; returns v `[K, T]`.

    `matrix` is H `[K, T, T]`, symmetric and positive semi-definite; `vector` is f `[K, T]`;
    `bound` is `[K]`. With H = GG' and f = Gg, for any G and g, the objective is
    (|G'v + g|^2 - |g|^2) / 2 and has a minimum. The minimiser need not be unique.

    Computed in float64 with a fixed number of operations and without synchronising with the
    device, so that the step can be captured in a CUDA graph.

    >>> past, g = torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([-1.0, 3.0])
    >>> v = lowest((past @ past.T)[None], (past @ g)[None], torch.zeros(1))[0]
    >>> v, past.T @ v + g
    (tensor([1., 0.]), tensor([0., 3.]))
    """
    diagonal = matrix.double().diagonal(dim1=1, dim2=2).unsqueeze(2)
    floor = bound.double().view(-1, 1, 1)
    # Rescale so that H has a unit diagonal, and f and the bound are at most one.
    size = torch.where(diagonal > 0, diagonal.rsqrt(), 0.0)
    cosines = matrix * size * size.mT
    slope, start = vector.unsqueeze(2) * size, floor * diagonal * size
    scale = torch.maximum(slope.abs(), start.abs()).amax(1, keepdim=True)
    unit = torch.where(scale > 0, scale, 1.0)
    solve = _by_active_set if matrix.shape[1] <= FEW else _by_interior_point
    above = solve(cosines, torch.baddbmm(slope / unit, cosines, start / unit))
    return (floor + above * scale * size).squeeze(2).to(vector.dtype)


def _by_active_set(matrix: Tensor, vector: Tensor) -> Tensor:
    """Find u >= 0 `[K, T, 1]` with s = Hu + q >= 0 and us = 0, by enumeration of active sets.

    All 2^T systems are solved at once, and the solution that violates the conditions least is
    returned; if H is positive semi-definite, the violation is rounding only. Singular systems give
    solutions that violate the conditions, or NaN.
    """
    runs, unknowns = vector.shape[:2]
    number, bit = (torch.arange(n, device=matrix.device) for n in (2**unknowns, unknowns))
    free = (number[:, None] >> bit & 1).to(matrix.dtype)[:, :, None]  # [2^T, T, 1]
    systems = matrix[:, None] * free * free.mT + torch.diag_embed(1 - free.squeeze(2))
    u: Tensor = torch.linalg.solve_ex(systems, -vector[:, None] * free).result  # [K, 2^T, T, 1]
    s = matrix[:, None] @ u + vector[:, None]
    broken = torch.maximum(-u, torch.where(free > 0, s.abs(), -s)).amax((2, 3))
    best = broken.nan_to_num(torch.inf, posinf=torch.inf).argmin(1)
    chosen = u.gather(1, best.view(runs, 1, 1, 1).expand(-1, 1, unknowns, 1)).squeeze(1)
    return chosen.clamp(min=0)


def _by_interior_point(matrix: Tensor, vector: Tensor) -> Tensor:
    """Find u >= 0 `[K, T, 1]` with s = Hu + q >= 0 and us = 0, by an interior-point method.

    Primal-dual Newton steps towards products us that are all a tenth of their mean, shortened so
    that u and s stay positive. About 20 steps solve most programmes of 20 unknowns, and the worst
    of many thousands took 30. The ridge is added to the equations of a step and not to H, so it
    costs no accuracy.
    """
    identity = torch.eye(matrix.shape[1], dtype=matrix.dtype, device=matrix.device)
    ridged = matrix + RIDGE * identity
    u = s = torch.ones_like(vector)
    for _ in range(ITERATIONS):
        product = (u * s).mean(1, keepdim=True)
        wanted = SHRINK * product / u
        equations = torch.addcmul(ridged, identity, s / u)
        gradient = torch.baddbmm(vector, matrix, u)
        du = torch.linalg.solve_ex(equations, wanted - gradient).result
        ds = wanted - s - s / u * du
        reach = torch.maximum(-du / u, -ds / s).amax(1, keepdim=True).clamp(min=SAFE)
        u, s = u + SAFE / reach * du, s + SAFE / reach * ds
    return torch.where(u > s, u, 0.0)
