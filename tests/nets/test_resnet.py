"""ResNet-18 as the paper has it: for small images, with PyTorch's first weights."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from recollect import ResNet18


def convolutions(net: nn.Module) -> list[nn.Conv2d]:
    return [layer for layer in net.modules() if isinstance(layer, nn.Conv2d)]


def by_hand(net: ResNet18, x: Tensor) -> Tensor:
    """The same function, layer by layer, in training."""
    weights = iter(net.parameters())

    def normalised(x: Tensor) -> Tensor:
        return functional.batch_norm(x, None, None, next(weights), next(weights), training=True)

    x = normalised(functional.conv2d(x, next(weights), padding=1)).relu()
    for stage in range(4):
        for block in range(2):
            stride = 2 if stage > 0 and block == 0 else 1
            seen = functional.conv2d(x, next(weights), stride=stride, padding=1)
            seen = functional.conv2d(normalised(seen).relu(), next(weights), padding=1)
            seen = normalised(seen)
            if stride == 2:
                x = normalised(functional.conv2d(x, next(weights), stride=2))
            x = (seen + x).relu()
    pooled = functional.avg_pool2d(x, x.shape[-1]).flatten(1)
    logits = functional.linear(pooled, next(weights), next(weights))
    assert next(weights, None) is None, "every weight is used"
    return logits


def test_it_is_the_papers_function() -> None:
    torch.manual_seed(0)
    net = ResNet18(7, width=4).double()
    x = torch.rand(3, 3, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(net(x), by_hand(net, x))


@pytest.mark.parametrize(("classes", "count"), [(10, 11_173_962), (200, 11_271_432)])
def test_it_has_the_papers_size(classes: int, count: int) -> None:
    net = ResNet18(classes)
    assert sum(parameter.numel() for parameter in net.parameters()) == count
    assert len(convolutions(net)) == 20
    stem = convolutions(net)[0]
    assert (stem.in_channels, stem.out_channels) == (3, 64)
    assert (stem.kernel_size, stem.stride, stem.padding) == ((3, 3), (1, 1), (1, 1))
    pooling = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)
    assert not any(isinstance(layer, pooling) for layer in net.modules())


@pytest.mark.parametrize("size", [32, 64])
def test_its_stages_halve_the_image_and_double_the_channels(size: int) -> None:
    net = ResNet18(200).eval()
    shapes: list[tuple[int, ...]] = []
    for part in (net.stem, *net.stages):
        part.register_forward_hook(lambda *call: shapes.append(tuple(call[2].shape[1:])))
    with torch.no_grad():
        logits = net(torch.rand(2, 3, size, size))
    assert shapes == [
        (64, size, size),
        (64, size, size),
        (128, size // 2, size // 2),
        (256, size // 4, size // 4),
        (512, size // 8, size // 8),
    ]
    assert logits.shape == (2, 200)
    with torch.no_grad():
        assert net.features(torch.rand(1, 3, size, size)).shape == (1, 512)


def test_its_weights_start_as_pytorchs_layers_do() -> None:
    """One after the other from the same generator, so that a seed means the same network."""
    torch.manual_seed(5)
    net = ResNet18(10, width=8)
    torch.manual_seed(5)
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            assert layer.bias is None
            size = (layer.kernel_size[0], layer.kernel_size[1])
            theirs: nn.Conv2d | nn.Linear = nn.Conv2d(
                layer.in_channels, layer.out_channels, size, bias=False
            )
        elif isinstance(layer, nn.Linear):
            theirs = nn.Linear(layer.in_features, layer.out_features)
            assert torch.equal(layer.bias, theirs.bias)
        else:
            if isinstance(layer, nn.BatchNorm2d):
                assert (layer.eps, layer.momentum) == (1e-5, 0.1)
                assert (layer.weight == 1).all()
                assert not layer.bias.any()
            continue
        assert torch.equal(layer.weight, theirs.weight)
