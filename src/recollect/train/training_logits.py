"""Logits of a forward pass in training mode, outside of a step."""

from __future__ import annotations

import torch
from torch import Tensor

from recollect.core.images import Images, as_input
from recollect.core.network import Network
from recollect.core.random import Purpose, bits
from recollect.core.transforms import Transforms
from recollect.core.weights import Weights

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
    """Compute the logits `[K, n, C]` of examples `[K, n, ...]` in training mode, batch by batch.

    The augmentation is a function of the seed, the step and the example's index. Running
    statistics of normalisation layers are updated.
    """
    views = x if images is None else images.views(seeds, step, 1, x.shape[1], Purpose.RECORD)[0]

    def through(runs: slice) -> Tensor:
        weights = Weights({name: t[runs] for name, t in network.weights.named().items()})
        buffers = {name: t[runs] for name, t in network.buffers.items()}
        logits = []
        for part, view in zip(x[runs].split(batch, 1), views[runs].split(batch, 1), strict=True):  # type: ignore[no-untyped-call]
            if images is None:
                inputs = as_input(part, network.dtype)
            else:
                inputs = images.augment(part, view, network.dtype)
            logits.append(network(weights, inputs, (inputs.shape[1],), buffers))
        return torch.cat(logits, 1)

    if not network.noisy:
        return through(slice(None))
    found = []
    for run, seed in enumerate(bits(seeds, Purpose.RECORD, step).tolist()):
        with network.seeded(seed):
            found.append(through(slice(run, run + 1)))
    return torch.cat(found)
