"""Learners to be fuzzed, with a network and a transform that fail when they are told to."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recollect import MLP, DERpp, Learner

__all__ = [
    "ANSWERS",
    "ERRORS",
    "FEATURES",
    "TROUBLE",
    "Troubled",
    "learners",
    "whole",
]

FEATURES = 6

# A first feature of this and more asks the transform or the network for trouble.
TROUBLE = 1000


def _raise(error: BaseException) -> Any:
    raise error


ERRORS = (
    RuntimeError, ValueError, TypeError, KeyError, IndexError, AssertionError, AttributeError,
    ZeroDivisionError, NotImplementedError, StopIteration, OSError, KeyboardInterrupt,
)  # fmt: skip
ANSWERS: list[Callable[[Tensor], Any]] = [
    *[lambda x, kind=kind: _raise(kind("trouble")) for kind in ERRORS],
    lambda x: None,
    lambda x: "text",
    lambda x: x[:-1],
    lambda x: torch.cat([x, x]),
    lambda x: x * float("nan"),
    lambda x: x.mul_(float("inf")),
    lambda x: x.flatten(1).sum(),
    lambda x: x.to(torch.complex64),
]


def _troubled(x: Tensor, otherwise: Callable[[Tensor], Tensor]) -> Any:
    first = float(x.flatten()[0])
    return ANSWERS[int(first) - TROUBLE](x) if first >= TROUBLE else otherwise(x)


class Troubled(nn.Module):
    """A network with dropout that fails if the first number of its input says so."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5), nn.Dropout(0.3))
        self.head = nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Any:
        if self.training:
            return _troubled(x, lambda x: self.head(self.body(x)))
        return self.head(self.body(x))


@cache
def learners() -> dict[str, Learner]:
    """Learners that have seen something; they stay what they are, as the tests show."""
    torch.manual_seed(0)
    method = DERpp(0.2, 1.0)
    usual: dict[str, Any] = {"memory": 20, "on_outlier": "raise", "max_classes": 12}
    made = {
        "growing": Learner(MLP(FEATURES, 1, hidden=(5,)), method, replay=4, **usual),
        "fixed": Learner(MLP(FEATURES, 3, hidden=(5,)), method, classes=[0, 1, 2], **usual),
        "adam": Learner(
            Troubled(), method, replay=4, optimiser="AdamW", lr=0.01, window=7, **usual
        ),
        "transformed": Learner(
            MLP(FEATURES, 1, hidden=(5,)), method, replay=4, optimiser="SGD",
            optimiser_options={"momentum": 0.9}, transform=lambda x: _troubled(x, lambda x: x + 1),
            **usual,
        ),
    }  # fmt: skip
    rng = np.random.default_rng(0)
    for learner in made.values():
        learner.notes["place"] = 4
        for _ in range(6):
            learner.observe(
                rng.normal(size=(5, FEATURES)).astype(np.float32), rng.integers(0, 3, 5)
            )
    return made


def whole(learner: Learner) -> tuple[bytes, bytes, list[object], object]:
    """All that a learner is, bit for bit, and what it says."""
    probe = np.linspace(-1, 1, 4 * FEATURES, dtype=np.float32).reshape(4, FEATURES)
    generator = torch.random.get_rng_state().numpy().tobytes()
    return (
        learner._packed() + generator,
        learner.predict_proba(probe).tobytes(),
        learner.classes,
        learner.metrics(),
    )
