"""The weights of a fleet: arithmetic on rows that never mixes two runs."""

from __future__ import annotations

import torch
from torch import Tensor

from recollect.core.dense import Product
from recollect.core.weights import Gradient, Weights

SHAPES: dict[str, tuple[int, ...]] = {"a.weight": (4, 5), "a.bias": (5,), "scale": (1,)}


def rows(runs: int, seed: int = 0) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    return [
        {n: torch.randn(s, dtype=torch.float64, generator=generator) for n, s in SHAPES.items()}
        for _ in range(runs)
    ]


def flat(row: dict[str, Tensor]) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in row.values()])


def test_stacking_keeps_every_row() -> None:
    source = rows(3)
    weights = Weights.stack(source)
    assert (weights.runs, weights.numel) == (3, 26)
    for name, stacked in weights.named().items():
        assert torch.equal(stacked, torch.stack([row[name] for row in source]))
        assert stacked.is_contiguous()
        assert not stacked.requires_grad


def test_a_dot_product_is_that_of_the_rows() -> None:
    a, b = rows(3), rows(3, seed=1)
    expected = torch.stack([flat(x) @ flat(y) for x, y in zip(a, b, strict=True)])
    torch.testing.assert_close(Weights.stack(a).dot(Weights.stack(b)), expected)


def test_adding_scales_every_run_by_its_own_number() -> None:
    a, b = rows(3), rows(3, seed=1)
    weights, scale = Weights.stack(a), torch.tensor([0.5, -2.0, 0.0], dtype=torch.float64)
    held = weights.named()["a.weight"]
    assert weights.add_(Weights.stack(b), scale) is weights
    for k in range(3):
        for name, stacked in weights.named().items():
            torch.testing.assert_close(stacked[k], a[k][name] + scale[k] * b[k][name])
    assert weights.named()["a.weight"] is held


def test_a_snapshot_stays() -> None:
    weights = Weights.stack(rows(2))
    before = weights.snapshot()
    weights.add_(before, torch.ones(2, dtype=torch.float64))
    for old, new in zip(before, weights, strict=True):
        torch.testing.assert_close(new, 2 * old)


def test_map_pairs_parameters_by_name() -> None:
    a, b = Weights.stack(rows(2)), Weights.stack(rows(2, seed=1))
    backwards = Weights(dict(reversed(b.named().items())))
    for name, mixed in a.map(lambda x, y: 0.3 * x + 0.7 * y, backwards).named().items():
        torch.testing.assert_close(mixed, 0.3 * a.named()[name] + 0.7 * b.named()[name])


def test_a_gradient_of_factors_is_added_like_its_product() -> None:
    generator = torch.Generator().manual_seed(2)
    inputs = torch.randn(3, 7, 4, dtype=torch.float64, generator=generator)
    errors = torch.randn(3, 7, 5, dtype=torch.float64, generator=generator)
    bias = errors.sum(1)
    gradient = Gradient({"w": Product(inputs, errors), "b": bias})
    dense = gradient.dense()
    torch.testing.assert_close(dense.named()["w"], torch.einsum("kni,kno->kio", inputs, errors))
    scale = torch.tensor([0.5, -2.0, 0.0], dtype=torch.float64)
    start = {"w": torch.randn(3, 4, 5, dtype=torch.float64, generator=generator), "b": bias * 3}
    by_factors = Weights(start).snapshot().add_(gradient, scale)
    by_product = Weights(start).snapshot().add_(dense, scale)
    for one, other in zip(by_factors, by_product, strict=True):
        torch.testing.assert_close(one, other)
    for name, tensor in start.items():
        assert torch.equal(by_factors.named()[name][2], tensor[2])
