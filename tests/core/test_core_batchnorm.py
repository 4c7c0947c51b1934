"""Batch normalisation by parts: one pass is exactly what separate passes would be."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from recollect import ResNet18
from recollect.core.batchnorm import PartNorm, keep_parts_apart

Norm = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d


def batch(size: int, *shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 3 * torch.rand(size, *shape, dtype=torch.float64, generator=generator) - seed


def close(ours: Tensor | None, theirs: Tensor | None) -> None:
    assert (ours is None) == (theirs is None)
    if ours is not None:
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("written_out", [False, True])
@pytest.mark.parametrize("sizes", [(6,), (5, 5, 5), (4, 7, 2), (5, 0, 5), (3, 3)])
@pytest.mark.parametrize(
    ("norm", "shape"),
    [
        (nn.BatchNorm2d(3), (3, 4, 5)),
        (nn.BatchNorm2d(3, momentum=0.3, affine=False), (3, 2, 2)),
        (nn.BatchNorm2d(2, track_running_stats=False), (2, 3, 1)),
        (nn.BatchNorm1d(4, eps=0.1), (4,)),
        (nn.BatchNorm3d(2), (2, 2, 3, 2)),
    ],
)
def test_one_pass_over_parts_equals_separate_passes(
    norm: Norm, shape: tuple[int, ...], sizes: tuple[int, ...], written_out: bool
) -> None:
    theirs = copy.deepcopy(norm).double()
    ours = PartNorm(copy.deepcopy(theirs))
    ours.written_out = written_out
    weights = [batch(size, *shape, seed=9 + n) for n, size in enumerate(sizes)]
    for turn in range(2):  # the second turn starts from statistics that the first one left
        parts = [
            batch(size, *shape, seed=n + 3 * turn).requires_grad_() for n, size in enumerate(sizes)
        ]
        alone = [theirs(part) if len(part) else part for part in parts]
        expected = torch.autograd.grad(
            torch.stack([(w * out).sum() for w, out in zip(weights, alone, strict=True)]).sum(),
            [*parts, *theirs.parameters()], allow_unused=True,
        )  # fmt: skip
        ours.parts = sizes
        together = ours(torch.cat(parts))
        close(together, torch.cat(alone))
        found = torch.autograd.grad(
            (torch.cat(weights) * together).sum(), [*parts, *ours.parameters()]
        )
        for mine, other in zip(found, expected, strict=True):
            close(mine, torch.zeros_like(mine) if other is None else other)
        for name, statistic in theirs.named_buffers():
            close(getattr(ours, name), statistic)
    theirs.eval()
    ours.eval()
    probe = batch(4, *shape, seed=5)
    close(ours(probe), theirs(probe))


def test_the_parts_of_a_whole_network_are_kept_apart() -> None:
    """Outputs, gradients and statistics of a ResNet-18: one pass against three."""
    torch.manual_seed(0)
    theirs = ResNet18(5, width=4).double()
    ours = copy.deepcopy(theirs)
    norms = keep_parts_apart(ours)
    assert len(norms) == 20
    parts = [batch(size, 3, 16, 16, seed=n) for n, size in enumerate((4, 3, 3))]
    alone = torch.cat([theirs(part) for part in parts])
    for norm in norms:
        norm.parts = [len(part) for part in parts]
    together = ours(torch.cat(parts))
    close(together, alone)
    assert not torch.allclose(copy.deepcopy(theirs)(torch.cat(parts)), alone)
    for logits in (alone, together):
        logits.square().sum().backward()
    for (name, mine), (same, other) in zip(
        ours.named_parameters(), theirs.named_parameters(), strict=True
    ):
        assert name == same
        close(mine.grad, other.grad)
    for name, statistic in theirs.named_buffers():
        close(dict(ours.named_buffers())[name], statistic)


def test_a_cumulative_average_is_left_alone() -> None:
    module = nn.Sequential(nn.BatchNorm1d(2, momentum=None))
    assert keep_parts_apart(module) == []
