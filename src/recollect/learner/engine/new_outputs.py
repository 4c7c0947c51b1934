"""Initialise the outputs that a learner adds for new classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from recollect.learner.engine.growth import absent
from recollect.learner.engine.views import ROWS

if TYPE_CHECKING:
    from recollect.learner.engine.engine import Engine


@torch.no_grad()
def start_outputs(engine: Engine, first: int, bias: float, copies: list[str]) -> None:
    """Set the biases of the outputs from `first` on, and extend the stored logits by them.

    `copies` are the name prefixes of the copies of the weights in the state of the method.
    """
    network, memory = engine.fleet.network, engine.fleet.memory.tensors
    tensors = engine.fleet.tensors()
    for name in network.head_axes:
        if name.split(".")[-1] == "bias":
            for each in ("", *copies):
                tensors[f"{each}weights.{name}"][:, first:] = bias
    filled = _filled(engine)
    if len(filled) and "logits" in memory:
        memory["logits"][filled, first:] = engine.logits(memory["x"][filled])[:, first:]


@torch.no_grad()
def mean_other_logit(engine: Engine) -> float:
    """Return the mean logit of the classes that the stored examples do not have."""
    memory, filled = engine.fleet.memory.tensors, _filled(engine)[:ROWS]
    if not len(filled) or engine.outputs < 2 or not {"x", "y"} <= memory.keys():
        return 0.0
    logits = engine.logits(memory["x"][filled])
    other = absent(logits, memory["y"][filled], engine.target)
    return float(logits[other].mean()) if bool(other.any()) else 0.0


def _filled(engine: Engine) -> Tensor:
    return engine.fleet.planner.filled(engine.fleet.clock).to(engine.fleet.device)
