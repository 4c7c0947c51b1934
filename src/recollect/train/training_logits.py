"""A forward pass in training mode, outside of a step."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from recollect.core.images import Images
from recollect.core.inputs import as_input
from recollect.core.network import Network
from recollect.core.random import Purpose, bits
from recollect.core.transforms import Transforms
from recollect.core.weights import Weights
from recollect.train.execution import fast_arithmetic

__all__ = ["training_logits"]


@torch.no_grad()
def training_logits(
    network: Network,
    images: Images | Transforms | None,
    seeds: Tensor,
    step: int,
    batch: int,
    x: Tensor,
) -> Tensor:
    """The logits `[K, n, C]` of examples `[K, n, ...]` in training mode, batch by batch.

    Images are augmented as the seed, the step and their row say. The running statistics of
    normalisation layers move with every batch.
    """
    parts = x.split(batch, 1)  # type: ignore[no-untyped-call]
    if images is not None:
        views = images.views(seeds, step, 1, x.shape[1], Purpose.RECORD)[0].split(batch, 1)  # type: ignore[no-untyped-call]

    def through(weights: Weights, buffers: Mapping[str, Tensor], runs: slice) -> Tensor:
        logits = []
        for number, part in enumerate(parts):
            if images is None:
                inputs = as_input(part[runs], network.dtype)
            else:
                inputs = images.augment(part[runs], views[number][runs], network.dtype)
            logits.append(network(weights, inputs, (inputs.shape[1],), buffers))
        return torch.cat(logits, 1)

    with fast_arithmetic(network.device):
        if not network.noisy:
            return through(network.weights, network.buffers, slice(None))
        found = []
        for run, seed in enumerate(bits(seeds, Purpose.RECORD, step).tolist()):
            here = slice(run, run + 1)
            buffers = {name: tensor[here] for name, tensor in network.buffers.items()}
            with network.seeded(seed):
                found.append(through(network.weights.row(run), buffers, here))
        return torch.cat(found)
