"""Variants of iCaRL and online EWC that have what differs in the paper's authors' code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from recollect import Needs, Query, Task, hyper
from recollect.core.images import Images
from recollect.core.model import Model
from recollect.core.random import Purpose, bits
from recollect.core.weights import Weights
from recollect.methods import OEWC, ICaRL
from recollect.methods.ewc import consolidate
from recollect.nets import ResNet18
from recollect.streams import benchmark

__all__ = ["IMAGES", "EstimatedOEWC", "VariantICaRL", "fisher_exact", "fisher_of_labels"]


def _images() -> Images:
    images = benchmark("seq-cifar10").images
    assert images is not None
    return images


IMAGES = _images()


@dataclass(frozen=True)
class VariantICaRL(ICaRL):
    """iCaRL on ResNet-18, without merged exemplars, without a ReLU in its features, or both."""

    unmerged: int = hyper(0, "1: exemplars are not added to the data of later tasks")
    without_relu: int = hyper(0, "1: features lack the ReLU after the first layer of ResNet-18")

    name: ClassVar[str] = "icarl-variant"
    title: ClassVar[str] = "iCaRL, variant"

    def start_task(self, task: Task) -> None:
        """Add exemplars to the data of the task, unless `unmerged`."""
        super().start_task(task)
        if self.unmerged:
            task.rehearse(0)

    def end_task(self, task: Task) -> None:
        """Choose exemplars, and compute means, with this variant's features."""
        with self._features(task.model):
            super().end_task(task)

    def predict(self, query: Query) -> Tensor:
        """Compute distances to means, with this variant's features."""
        with self._features(query.model):
            return super().predict(query)

    @contextmanager
    def _features(self, model: Model) -> Iterator[None]:
        """Within this context, the ReLU is missing; steps and their old network have it."""
        network = model.network.module
        assert isinstance(network, ResNet18)
        relu = network.stem[2]
        if self.without_relu:
            network.stem[2] = nn.Identity()
        try:
            yield
        finally:
            network.stem[2] = relu


@dataclass(frozen=True)
class EstimatedOEWC(OEWC):
    """Online EWC with a Fisher information of a few images, exact or that of the labels."""

    images: int = hyper(100, "number of images of a task for its Fisher information")
    of_labels: int = hyper(0, "1: estimate it by `fisher_of_labels`")
    moved: int = hyper(0, "1: these images, one by one, move running statistics at task end")

    name: ClassVar[str] = "oewc-estimated"
    title: ClassVar[str] = "oEWC, estimated"
    needs: ClassVar[Needs] = OEWC.needs

    def end_task(self, task: Task) -> None:
        """Add the chosen estimate to the running Fisher information."""
        x, y = task.examples(task.for_all(torch.arange(min(self.images, task.count))))
        if not self.of_labels:
            found = fisher_exact(task.model, x)
        if self.of_labels or self.moved:
            key = bits(task.seeds, Purpose.RECORD, task.clock.task)
            estimate = fisher_of_labels(task.model, x, y, key, move=bool(self.moved))
        consolidate(task, estimate if self.of_labels else found, self.gamma)


def fisher_exact(model: Model, x: Tensor) -> Weights:
    """The mean Fisher information of images `[K, n, ...]`, as the library's EWC computes it."""
    return model.fisher_information(IMAGES.plain(x)).times(model.ones / x.shape[1])


@torch.enable_grad()
def fisher_of_labels(
    model: Model, x: Tensor, y: Tensor, key: Tensor, *, training: bool = True, move: bool = False
) -> Weights:
    """The mean of p(y|x) times the squared gradient of log p(y|x), one image after the other.

    With `training`, images are augmented, and the network is in training mode, so that an image
    is normalised by its own statistics; with `move`, these also change the running statistics.
    """
    total, count = model.weights.map(torch.zeros_like), x.shape[1]
    views = IMAGES.view_of(bits(key[:, None], Purpose.VIEW, torch.arange(count)))
    inputs = IMAGES.augment(x, views) if training else IMAGES.plain(x)
    for image, label in zip(inputs.split(1, 1), y.split(1, 1), strict=True):  # type: ignore[no-untyped-call]
        logits = model(image, training=training, statistics=training and move)
        surprise = cross_entropy(logits[:, 0], label[:, 0], reduction="none")
        gradient = model.gradient(surprise).dense()
        total.add_(gradient.map(torch.square), (-surprise.detach()).exp() / count)
    return total
