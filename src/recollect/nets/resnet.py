"""The ResNet-18 of the paper's experiments on CIFAR-10 and Tiny ImageNet."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn


class ResNet18(nn.Module):
    """ResNet-18 for small images: four stages of two residual blocks (He et al., 2016).

    The stem is a 3x3 convolution of stride 1 without pooling; the last stage is followed by global
    average pooling. Weights have PyTorch's default initialisation.

    >>> import torch
    >>> ResNet18(10, width=4)(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    """

    def __init__(self, classes: int, width: int = 64, channels: int = 3) -> None:
        super().__init__()
        self.stem = nn.Sequential(_convolution(channels, width), nn.BatchNorm2d(width), nn.ReLU())
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        self.stages = nn.Sequential(
            *(
                nn.Sequential(_Block(before, after, stride), _Block(after, after))
                for (before, after), stride in zip(pairwise(widths), (1, 2, 2, 2), strict=True)
            )
        )
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Compute logits `[n, classes]` of images `[n, channels, H, W]`."""
        logits: Tensor = self.head(self.features(x))
        return logits

    def features(self, x: Tensor) -> Tensor:
        """Compute the inputs of the head, `[n, 8 * width]`."""
        seen: Tensor = self.stages(self.stem(x))
        return seen.mean((2, 3))


class _Block(nn.Module):
    """A residual block of two convolutions."""

    def __init__(self, before: int, after: int, stride: int = 1) -> None:
        super().__init__()
        self.first = nn.Sequential(_convolution(before, after, stride), nn.BatchNorm2d(after))
        self.second = nn.Sequential(_convolution(after, after), nn.BatchNorm2d(after))
        self.shortcut = nn.Sequential()
        if stride > 1 or before != after:
            narrow = nn.Conv2d(before, after, 1, stride, bias=False)
            self.shortcut = nn.Sequential(narrow, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        seen: Tensor = self.second(self.first(x).relu())
        added: Tensor = seen + self.shortcut(x)
        return added.relu()


def _convolution(before: int, after: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
