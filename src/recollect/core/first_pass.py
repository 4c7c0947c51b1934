"""Use the first forward pass of a training step as the prediction for its batch.

This is possible for networks that compute the same in training and evaluation mode.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

import torch
from torch import Tensor, nn

from recollect.core.dense import Dense

# Layers without batch statistics, dropout or random slopes.
SAME = frozenset((
    Dense, nn.Sequential, nn.ModuleList, nn.Identity, nn.Flatten, nn.Unflatten,
    nn.Linear, nn.Bilinear, nn.Embedding, nn.Conv1d, nn.Conv2d, nn.Conv3d,
    nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d,
    nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d,
    nn.LayerNorm, nn.GroupNorm, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.PReLU, nn.ELU, nn.SELU,
    nn.GELU, nn.SiLU, nn.Mish, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Hardswish, nn.Softmax,
))  # fmt: skip


def same_in_both_modes(module: nn.Module) -> bool:
    """Whether a module is known to compute the same in training and in evaluation mode.

    Its layers must be torch layers for which this holds, or of classes that declare an attribute
    `same_in_both_modes = True`. The attribute is not inherited: a subclass has to repeat it.

    >>> same_in_both_modes(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))
    True
    >>> same_in_both_modes(nn.Sequential(nn.Linear(4, 3), nn.Dropout()))
    False
    """
    return all(
        (type(layer) in SAME or vars(type(layer)).get("same_in_both_modes") is True)
        and not layer._forward_hooks
        and not layer._forward_pre_hooks
        for layer in module.modules()
    )


def leaves_inputs(module: nn.Module) -> bool:
    """Whether a module is known not to modify its inputs in place.

    >>> leaves_inputs(nn.Sequential(nn.ReLU())), leaves_inputs(nn.Sequential(nn.ReLU(inplace=True)))
    (True, False)
    """
    layers = list(module.modules())
    return (
        same_in_both_modes(module)
        and all(type(layer) in SAME for layer in layers)
        and not any(getattr(layer, "inplace", False) for layer in layers)
    )


@final
class FirstPass:
    """Stores the input and output of the first forward pass of a step.

    If the input begins with the batch, the outputs are the predictions for the batch, since the
    weights have not been changed yet.
    """

    def __init__(self, weights: Iterable[Tensor]) -> None:
        self._weights = list(weights)
        self._versions: list[int] | None = None
        self._noted: tuple[Tensor, Tensor] | None = None

    def begin(self) -> None:
        """Prepare for the first pass of a step."""
        self._versions, self._noted = self._counted(), None

    def note(self, x: Tensor, outputs: Tensor) -> None:
        """Store a pass over x `[1, N, ...]` with outputs `[1, N, C]`, if it is the first."""
        if self._versions is not None:
            if self._versions == self._counted():
                self._noted = x, outputs.detach()
            self._versions = None

    def outputs(self, x: Tensor) -> Tensor | None:
        """Return the outputs `[n, C]` of a batch `[n, ...]`, or None if it was not the input."""
        noted, self._noted, self._versions = self._noted, None, None
        if noted is None:
            return None
        read, given = noted
        size = x.shape[0]
        return given[0, :size] if torch.equal(read[0, :size], x) else None

    def _counted(self) -> list[int]:
        """Return torch's version counters, which count in-place changes, of all weights."""
        return [weight._version for weight in self._weights]
