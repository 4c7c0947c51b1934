"""Small quadratic programmes with a lower bound, one for every run of a fleet, solved at once."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["lowest"]

FEW = 5
ITERATIONS = 40
SHRINK = 0.1
SAFE = 0.99
RIDGE = 1e-13


def lowest(matrix: Tensor, vector: Tensor, bound: Tensor) -> Tensor:
    """The v `[K, T]` with v >= bound that minimises v.Hv / 2 + f.v for every run.

    `matrix` is H `[K, T, T]`, symmetric and positive semi-definite; `vector` is f `[K, T]`;
    `bound` is `[K]`. With H = GG' and f = Gg, for any G and g, the sum is
    (|G'v + g|^2 - |g|^2) / 2 and has a minimum. Where several v reach it, v is one of them.

    The arithmetic is in float64 and the number of operations is fixed: nothing is read back from
    the device, so a step that calls it can be recorded.

    >>> past, g = torch.tensor([[1.0, 0.0], [1.0, 1.0]]), torch.tensor([-1.0, 3.0])
    >>> v = lowest((past @ past.T)[None], (past @ g)[None], torch.zeros(1))[0]
    >>> v, past.T @ v + g
    (tensor([1., 0.]), tensor([0., 3.]))
    """
    diagonal = matrix.double().diagonal(dim1=1, dim2=2).unsqueeze(2)
    floor = bound.double().view(-1, 1, 1)
    # In units in which H has ones on its diagonal and neither f nor the bound is above one.
    size = torch.where(diagonal > 0, diagonal.rsqrt(), 0.0)
    cosines = matrix * size * size.mT
    slope, start = vector.unsqueeze(2) * size, floor * diagonal * size
    scale = torch.maximum(slope.abs(), start.abs()).amax(1, keepdim=True)
    unit = torch.where(scale > 0, scale, 1.0)
    solve = _by_active_set if matrix.shape[1] <= FEW else _by_interior_point
    above = solve(cosines, torch.baddbmm(slope / unit, cosines, start / unit))
    return (floor + above * scale * size).squeeze(2).to(vector.dtype)


def _by_active_set(matrix: Tensor, vector: Tensor) -> Tensor:
    """The u >= 0 `[K, T, 1]` with s = Hu + q >= 0 and us = 0, for few unknowns.

    Some u are zero, and for the others s is. All 2^T choices of which are solved at once, and the
    one that breaks the conditions least is taken: no more than rounding, if H is positive
    semi-definite. Choices with a singular system give numbers that break them, or none at all.
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
    """The u >= 0 `[K, T, 1]` with s = Hu + q >= 0 and us = 0.

    A primal-dual interior-point method: Newton steps towards products us that are all a tenth of
    their mean, each cut short before a u or an s would be zero. About 20 steps solve most
    programmes of 20 unknowns, and the worst of many thousands took 30. The ridge is in the
    equations of a step and not in H, so that it costs no accuracy.
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
