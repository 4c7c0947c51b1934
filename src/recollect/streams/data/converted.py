"""The converted file: a data set as four tensors in one safetensors file, quick to load."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from recollect.errors import DataError
from recollect.files import replacing
from recollect.streams.data.dataset import Dataset

__all__ = ["Form", "Unfit", "read", "write"]


@dataclass(frozen=True)
class Form:
    """What the converted file of a data set holds.

    `md5` has the checksums of the tensors whose content is the same on every machine. The others
    are checked by the checksums that the file itself carries.

    >>> form = Form("cifar10", classes=10, image=(3, 32, 32), train=50_000, test=10_000)
    >>> form.file, form.shapes["train_x"], form.shapes["test_y"]
    ('cifar10.safetensors', (50000, 3, 32, 32), (10000,))
    """

    name: str
    classes: int  # at most 256: a label is a byte
    image: tuple[int, int, int]
    train: int
    test: int
    md5: Mapping[str, str] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The name of the converted file."""
        return f"{self.name}.safetensors"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The tensors of the file and their shapes; all are uint8."""
        return {
            "train_x": (self.train, *self.image),
            "train_y": (self.train,),
            "test_x": (self.test, *self.image),
            "test_y": (self.test,),
        }


class Unfit(Exception):  # noqa: N818 - what is wrong with a file, in words that follow its name
    """Why a converted file, or what should become one, is not what its form says."""


def read(form: Form, path: Path) -> Dataset:
    """Load a converted file and check all of it; its images stay on disk until they are used.

    They are mapped into memory privately: who writes to them changes neither the file nor what
    another process sees.
    """
    try:
        with safe_open(path, framework="pt") as file:
            recorded = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as problem:
        raise Unfit(f"is truncated or is not a safetensors file ({problem})") from problem
    for name, found in _checksums(form, tensors).items():
        expected = form.md5.get(name) or recorded.get(name)
        if expected is None:
            raise Unfit(f"was not written by recollect: it carries no checksum of {name}")
        if found != expected:
            raise Unfit(
                f"is corrupt: the MD5 checksum of {name} is {found} and {expected} was expected"
            )
    try:
        return Dataset(
            form.name,
            form.classes,
            train_x=tensors["train_x"],
            train_y=tensors["train_y"].long(),
            test_x=tensors["test_x"],
            test_y=tensors["test_y"].long(),
        )
    except DataError as problem:
        raise Unfit(f"is not a file of {form.name}: {problem}") from problem


def write(form: Form, data: Dataset, path: Path) -> None:
    """Check a data set against its form, and only then write the converted file, whole or not.

    >>> from tempfile import TemporaryDirectory
    >>> x, y = torch.zeros(2, 3, 4, 4, dtype=torch.uint8), torch.tensor([0, 1])
    >>> form = Form("blank", classes=2, image=(3, 4, 4), train=2, test=2)
    >>> with TemporaryDirectory() as folder:
    ...     write(form, Dataset("blank", 2, x, y, x.clone(), y), Path(folder) / form.file)
    ...     read(form, Path(folder) / form.file).train_y
    tensor([0, 1])
    """
    tensors = {
        "train_x": data.train_x.contiguous(),
        "train_y": data.train_y.to(torch.uint8),
        "test_x": data.test_x.contiguous(),
        "test_y": data.test_y.to(torch.uint8),
    }
    found = _checksums(form, tensors)
    for name, expected in form.md5.items():
        if found[name] != expected:
            raise Unfit(
                f"holds another data set than {form.name}: the MD5 checksum of {name} is "
                f"{found[name]} and {expected} was expected"
            )
    with replacing(path) as part:
        # A file that safetensors makes is closed to other users, who may share this cache.
        part.touch()
        mode = part.stat().st_mode
        save_file(tensors, part, metadata=found)
        part.chmod(mode)


def _checksums(form: Form, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The MD5 checksum of every tensor, once all have the shapes and types that they should."""
    if tensors.keys() != form.shapes.keys():
        raise Unfit(
            f"holds {', '.join(sorted(tensors)) or 'nothing'}: "
            f"{', '.join(sorted(form.shapes))} were expected"
        )
    for name, shape in form.shapes.items():
        tensor = tensors[name]
        if tensor.dtype != torch.uint8 or tuple(tensor.shape) != shape:
            raise Unfit(
                f"has {name} of type {tensor.dtype} and shape {tuple(tensor.shape)}: "
                f"{torch.uint8} and {shape} were expected"
            )
    return {
        name: hashlib.md5(tensor.numpy().data, usedforsecurity=False).hexdigest()
        for name, tensor in tensors.items()
    }
