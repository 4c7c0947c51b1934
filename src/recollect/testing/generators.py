"""Whether somebody draws from a global random generator."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor

__all__ = ["other_generators"]

ELSEWHERE = 20_261_116  # a seed that nobody is likely to have set


@contextmanager
def other_generators() -> Iterator[partial[str]]:
    """Meanwhile, the global generators start elsewhere; asks whose were used since."""
    states = torch.get_rng_state(), np.random.get_state(legacy=False), random.getstate()
    torch.manual_seed(ELSEWHERE)
    np.random.seed(ELSEWHERE)
    random.seed(ELSEWHERE)
    began = torch.get_rng_state(), str(np.random.get_state(legacy=False)), random.getstate()
    try:
        yield partial(_used, began)
    finally:
        torch.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])


def _used(began: tuple[Tensor, str, object]) -> str:
    if not torch.equal(began[0], torch.get_rng_state()):
        return "torch's global generator"
    if began[1] != str(np.random.get_state(legacy=False)):
        return "numpy's global generator"
    return "" if began[2] == random.getstate() else "Python's global generator"
