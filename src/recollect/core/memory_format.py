"""Choose the memory format of convolution weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from recollect.core.network import Network
from recollect.errors import InputError


def in_fast_format(make: Callable[..., Network], x: Tensor) -> Network:
    """Make a network with channels-last weights, unless its module fails on inputs x with them.

    Convolutions are faster with such weights, on a GPU and on a CPU, but not in double precision.
    Their outputs have the same format, so a module that calls `view` on them, instead of `reshape`
    or `flatten`, fails.
    """
    network = make(channels_last=x.dtype != torch.float64)
    if not network.channels_last or _accepts(network, x):
        return network
    return make(channels_last=False)


@torch.no_grad()
def _accepts(network: Network, x: Tensor) -> bool:
    copies = {name: tensor.clone() for name, tensor in network.buffers.items()}
    try:
        with network.seeded(0):
            network(network.weights, x, buffers=copies)
    except torch.OutOfMemoryError:
        raise
    except (InputError, RuntimeError):
        return False
    return True
