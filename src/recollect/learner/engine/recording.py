"""Predictions of the training thread, recorded (CUDA graphs) like the steps themselves."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from recollect.learner.engine.views import ROWS
from recollect.methods import Method
from recollect.train import Fleet
from recollect.train.recorded import Recorded


@final
class Predictions:
    """Computes the logits of a fleet, recorded if its steps are.

    A recording reads the weights in place, so it always uses the latest ones. Methods that override
    `predict` are not recorded: they may depend on the clock, which is not a tensor.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._recorded: Recorded | None = None
        if fleet.recorded and fleet.kind.predict is Method.predict:
            module, title = fleet.network.module, fleet.kind.title
            self._recorded = Recorded(self._scores, module, fleet.device, title, "prediction")

    def __call__(self, x: Tensor) -> Tensor:
        """Compute the logits `[n, C]` of examples `[n, ...]`."""
        if len(x) <= ROWS:
            return self._part(x)
        return torch.cat([self._part(part) for part in x.split(ROWS)])  # type: ignore[no-untyped-call]

    def wipe(self) -> None:
        """Overwrite the examples in the recordings of predictions and steps with zeros."""
        self._fleet.wipe()
        if self._recorded is not None:
            self._recorded.wipe()

    def _part(self, x: Tensor) -> Tensor:
        if self._recorded is None:
            return self._fleet.predict(x.unsqueeze(0))[0]
        # Cloned, because the next prediction overwrites the output of a recording.
        return self._recorded(None, (x.unsqueeze(0),))["scores"][0].clone()

    def _scores(self, *inputs: Tensor | None) -> dict[str, Tensor]:
        (x,) = inputs
        assert x is not None
        return {"scores": self._fleet.predict(x)}
