"""Step time of convolutional networks on one CPU core, in float32 and in bfloat16.

    python -m benchmarks.convolutions

DER++ with batches and replays of 32 images of 32 x 32 pixels: a small network, and the paper's
ResNet-18. The baseline is a plain PyTorch loop in float32. Variants are interleaved, and the best
round of each counts, in CPU seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.plain import PlainDERpp
from recollect import DERpp, Fleet, ResNet18

BATCH, MEMORY, ROUNDS = 32, 200, 4
SHAPE = (3, 32, 32)


def main() -> None:
    """Print a table with one row per network and variant."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    print(f"DER++, batches of {BATCH} + {BATCH} + {BATCH} images, one CPU core, "
          f"PyTorch {torch.__version__}")  # fmt: skip
    for title, build, steps in (
        ("two convolutions", small, 20),
        ("ResNet-18", lambda: ResNet18(10), 2),
    ):
        steps_of = {
            "plain loop": plain(build),
            "float32": fleet(build, half=False),
            "bf16": fleet(build, half=True),
        }
        best = interleaved(steps_of, steps)
        for name, seconds in best.items():
            print(f"{title:18s}  {name:10s}  {1e3 * seconds:8.1f} ms   "
                  f"{best['plain loop'] / seconds:5.2f} times faster")  # fmt: skip


def small() -> nn.Module:
    """Build a network of two convolutions."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 64, 10),
    )  # fmt: skip


def plain(build: Callable[[], nn.Module]) -> Callable[[int], None]:
    """Return a function that takes some steps of the plain loop."""
    torch.manual_seed(0)
    loop = PlainDERpp(build(), torch.zeros(SHAPE), 10, MEMORY, BATCH)

    def several(steps: int) -> None:
        x, y = examples(steps)
        for start in range(0, len(x), BATCH):
            loop.step(x[start : start + BATCH], y[start : start + BATCH])

    return several


def fleet(build: Callable[[], nn.Module], *, half: bool) -> Callable[[int], None]:
    """Return a function that takes some steps of a fleet of one."""
    one = Fleet([DERpp(0.2, 1.0)], build, seeds=[0], lr=[0.03], classes=10, shape=SHAPE,
                memory=MEMORY, replay=BATCH, half=half)  # fmt: skip

    def several(steps: int) -> None:
        x, y = examples(steps)
        one.learn(x[None], y[None], BATCH)

    return several


def interleaved(variants: dict[str, Callable[[int], None]], steps: int) -> dict[str, float]:
    """Return the CPU seconds per step of each variant, in its best round after a warm-up."""
    best = dict.fromkeys(variants, float("inf"))
    for number in range(ROUNDS + 1):
        for name, take in variants.items():
            began = time.process_time()
            take(steps)
            if number:
                best[name] = min(best[name], (time.process_time() - began) / steps)
    return best


def examples(steps: int) -> tuple[Tensor, Tensor]:
    """Return random images and labels for some steps."""
    return torch.rand(steps * BATCH, *SHAPE), torch.randint(10, (steps * BATCH,))


if __name__ == "__main__":
    main()
