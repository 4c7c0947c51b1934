"""Benchmarks by name, with their data sets, batch sizes and epochs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, final

import torch

from recollect.core.images import Images
from recollect.core.random import Purpose, bits, permute
from recollect.errors import InputError, unknown_name
from recollect.streams.class_order import class_groups
from recollect.streams.data import Dataset, load
from recollect.streams.mnist360 import Mnist360
from recollect.streams.pixels import View
from recollect.streams.stream import Setting, Stream
from recollect.streams.tasks import TaskStream, examples_of, reordered


def benchmark(name: str) -> Benchmark:
    """Return the benchmark with this name.

    >>> benchmark("seq-mnist").tasks
    5
    >>> benchmark("seq-mnst")
    Traceback (most recent call last):
    recollect.errors.InputError: unknown benchmark 'seq-mnst': did you mean 'seq-mnist'? ...
    """
    if name not in BENCHMARKS:
        raise unknown_name("benchmark", name, BENCHMARKS)
    return BENCHMARKS[name]


def twin(known: Benchmark) -> Benchmark | None:
    """Return the substitute over bundled data for a benchmark that needs a download.

    >>> found = twin(benchmark("seq-mnist"))
    >>> found.name if found else None
    'seq-digits'
    """
    return next((each for each in BENCHMARKS.values() if each.stands_in == known.name), None)


@final
@dataclass(frozen=True)
class Benchmark:
    """Description of a benchmark, before its data are loaded.

    `paper` is the name of the benchmark in the paper's tables of hyper-parameters and results (its
    own name if it is not in the paper). `stands_in` is the benchmark that it substitutes for
    without a network connection.

    >>> stream = benchmark("seq-digits").stream()
    >>> stream.tasks, stream.task_classes(1), stream.shape
    (5, (2, 3), (8, 8))
    """

    name: str
    dataset: str
    setting: Setting
    tasks: int
    batch: int
    replay: int
    paper: str
    description: str
    build: Callable[[Benchmark, Dataset], Stream] = field(repr=False)
    stands_in: str | None = None
    epochs: int = 1
    network: Literal["mlp", "resnet18"] = "mlp"
    images: Images | None = None

    def stream(
        self,
        validation: bool = False,
        folder: Path | str | None = None,
        report: Callable[[str], None] | None = None,
        class_order: int | str | None = None,
    ) -> Stream:
        """Load the data and build the stream; `validation` tests on a tenth of the training set.

        `report` is called with a message if the data are downloaded. For benchmarks whose tasks
        add classes, `class_order` is an integer for a random class order shared by all runs, or
        `"seed"` for a random order per seed.

        >>> stream = benchmark("seq-digits").stream(class_order=7)
        >>> stream.name, stream.task_classes(0)
        ('seq-digits-order-7', (9, 1))
        """
        known = self
        if class_order is not None:
            if self.setting != "class":
                raise InputError(
                    f"class_order is for benchmarks whose tasks bring new classes; in {self.name} "
                    "every task has all of them: leave it out"
                )
            order = _checked_order(class_order)
            build = partial(_tasks, order=order)
            known = replace(self, name=f"{self.name}-order-{order}", build=build)
        dataset = load(self.dataset, folder, report)
        return known.build(known, hold_out(dataset) if validation else dataset)


def hold_out(dataset: Dataset) -> Dataset:
    """Return the data set with a random tenth of its training examples as the test set.

    The split is the same for every seed, so the length of a stream does not depend on the seed.
    """
    total = len(dataset.train_y)
    held = torch.zeros(total, dtype=torch.bool)
    held[
        permute(bits(torch.tensor([0]), Purpose.SPLIT), torch.arange(max(1, total // 10)), total)
    ] = True
    return replace(
        dataset,
        train_x=dataset.train_x[~held],
        train_y=dataset.train_y[~held],
        test_x=dataset.train_x[held],
        test_y=dataset.train_y[held],
    )


def _checked_order(order: int | str) -> int | str:
    if order == "seed":
        return order
    try:
        return int(order)
    except (TypeError, ValueError):
        raise InputError(
            f"class_order is {order!r}: give seed (another order for every seed) or a whole number "
            "(one random order)"
        ) from None


def _tasks(
    spec: Benchmark, dataset: Dataset, view: View = "plain", order: int | str | None = None
) -> Stream:
    """Build a stream whose tasks add classes, or show all classes in another view of the pixels."""
    groups = [tuple(range(dataset.classes))] * spec.tasks
    if spec.setting == "class":
        groups = class_groups(list(range(dataset.classes)), spec.tasks, order)
    ids = {group: examples_of(dataset.train_y, group) for group in groups}
    test_ids = {group: examples_of(dataset.test_y, group) for group in groups}
    stream = TaskStream(
        name=spec.name,
        setting=spec.setting,
        classes=dataset.classes,
        train_x=dataset.train_x,
        train_y=dataset.train_y,
        test_x=dataset.test_x,
        test_y=dataset.test_y,
        train_ids=tuple(ids[group] for group in groups),
        test_ids=tuple(test_ids[group] for group in groups),
        classes_of=tuple(groups),
        view=view,
        images=spec.images,
    )
    return reordered(stream) if order == "seed" else stream


def _turning(spec: Benchmark, dataset: Dataset) -> Stream:
    return Mnist360(dataset, name=spec.name)


def _twin(spec: Benchmark, name: str, batch: int, note: str = "") -> Benchmark:
    """Return the same benchmark over scikit-learn's digits, which need no download."""
    return replace(
        spec,
        name=name,
        dataset="digits",
        batch=batch,
        replay=batch,
        stands_in=spec.name,
        description=f"{spec.description}; over scikit-learn's 8x8 digits{note}",
    )


_SEQ = Benchmark(
    "seq-mnist", "mnist", "class", 5, 10, 10, "seq-mnist",
    "digits in five tasks of two classes", _tasks,
)  # fmt: skip
_PERM = Benchmark(
    "perm-mnist", "mnist", "domain", 20, 128, 128, "perm-mnist",
    "all digits in twenty tasks, each with its own permutation of the pixels",
    partial(_tasks, view="permuted"),
)  # fmt: skip
_ROT = Benchmark(
    "rot-mnist", "mnist", "domain", 20, 128, 128, "rot-mnist",
    "all digits in twenty tasks, each at its own angle between 0 and 180 degrees",
    partial(_tasks, view="rotated"),
)  # fmt: skip
_TURNING = Benchmark(
    "mnist-360", "mnist", "general", 1, 16, 16, "mnist-360",
    "digits 0 to 8 in pairs, slowly turning, without task boundaries", _turning,
)  # fmt: skip
_CIFAR10 = Benchmark(
    "seq-cifar10", "cifar10", "class", 5, 32, 32, "seq-cifar10",
    "small photographs in five tasks of two classes", _tasks, epochs=50, network="resnet18",
    images=Images(mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2615)),
)  # fmt: skip
_TINY_IMAGENET = Benchmark(
    "seq-tiny-imagenet", "tiny-imagenet", "class", 10, 32, 32, "seq-tiny-imagenet",
    "photographs in ten tasks of twenty classes", _tasks, epochs=100, network="resnet18",
    images=Images(mean=(0.4802, 0.4480, 0.3975), std=(0.2770, 0.2691, 0.2821)),
)  # fmt: skip
_CIFAR100_IMAGES = Images(mean=(0.5071, 0.4865, 0.4409), std=(0.2673, 0.2564, 0.2762))
_CIFAR100 = Benchmark(
    "seq-cifar100", "cifar100", "class", 10, 32, 32, "seq-cifar100",
    "small photographs in ten tasks of ten classes", _tasks, epochs=50, network="resnet18",
    images=_CIFAR100_IMAGES,
)  # fmt: skip
_FASHION = replace(
    _SEQ, name="seq-fashion-mnist", dataset="fashion-mnist", paper="seq-fashion-mnist",
    description="pictures of clothes in five tasks of two classes",
)  # fmt: skip


def _online(spec: Benchmark, name: str) -> Benchmark:
    """Return the same benchmark in a single pass with small batches (online learning)."""
    return replace(
        spec, name=name, paper=name, batch=10, replay=64, epochs=1,
        description=f"{spec.description}, in a single pass",
    )  # fmt: skip


_SMALLER = ", in batches of 32 instead of 128 as there are only 1,438 examples"

BENCHMARKS: dict[str, Benchmark] = {
    each.name: each
    for each in (
        _SEQ,
        _PERM,
        _ROT,
        _TURNING,
        _CIFAR10,
        _TINY_IMAGENET,
        _CIFAR100,
        _FASHION,
        _online(_CIFAR10, "online-cifar10"),
        _online(_CIFAR100, "online-cifar100"),
        _twin(_SEQ, "seq-digits", 10),
        _twin(_PERM, "perm-digits", 32, _SMALLER),
        _twin(_ROT, "rot-digits", 32, _SMALLER),
        _twin(_TURNING, "digits-360", 16),
    )
}
