"""Class-incremental image classification with a convolutional network.

    python examples/images.py

The ten handwritten digits of scikit-learn (`pip install "recollect[digits]"`) arrive one class
after the other. Plain SGD only remembers the last class; DER++ replays a few hundred randomly
shifted images with the logits that the network predicted when they arrived.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from recollect import SGD, DERpp, Learner

BATCH = 10


def network() -> nn.Module:
    """Build a small convolutional network; the learner adds an output for each new class."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 2 * 2, 1),
    )  # fmt: skip


def shifted(images: Tensor) -> Tensor:
    """Shift each image of a batch `[n, 1, 8, 8]` by up to one pixel in each direction."""
    down, right = torch.randint(3, (2, len(images), 1))
    rows, columns = torch.arange(8) + down, torch.arange(8) + right
    padded = functional.pad(images, [1, 1, 1, 1])[:, 0]
    image = torch.arange(len(images))[:, None, None]
    return padded[image, rows[:, :, None], columns[:, None, :]].unsqueeze(1)


def digits(classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Load images `[n, 1, 8, 8]` as uint8, their labels, and the mask of held-out ones."""
    bunch = load_digits(n_class=classes)
    images = np.rint(bunch.images * 255 / 16).astype(np.uint8)[:, None]
    return images, bunch.target, np.arange(len(images)) % 5 == 0


def main(classes: int = 10, passes: int = 3) -> dict[str, list[float]]:
    """Learn the classes in turn with both methods, and return the final accuracy on each class."""
    x, y, held = digits(classes)
    torch.manual_seed(0)
    start = network()
    methods = {"SGD": SGD(), "DER++": DERpp(alpha=0.1, beta=1.0)}
    learners = {
        title: Learner(
            start, method, memory=400, lr=0.03, transform=shifted, replay_transform=shifted
        )
        for title, method in methods.items()
    }
    for digit in range(classes):
        members = np.flatnonzero((y == digit) & ~held)
        for batch in np.array_split(np.tile(members, passes), len(members) * passes // BATCH):
            for learner in learners.values():
                learner.observe(x[batch], y[batch])
        known = held & (y <= digit)
        shares = (np.mean(each.predict(x[known]) == y[known]) for each in learners.values())
        told = "   ".join(
            f"{title} {100 * share:5.1f} %" for title, share in zip(learners, shares, strict=True)
        )
        print(f"after class {digit}: accuracy on all classes so far   {told}")
    result = {}
    print("\naccuracy by class at the end")
    for title, learner in learners.items():
        right = np.array(learner.predict(x)) == y
        result[title] = [float(right[held & (y == digit)].mean()) for digit in range(classes)]
        print(f"  {title:6}" + "".join(f"{100 * share:7.1f}" for share in result[title]))
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--passes", type=int, default=3, help="over every class")
    main(**vars(parser.parse_args()))
