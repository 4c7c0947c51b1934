"""Compiled steps of a learner are eager ones up to rounding, and failed ones are undone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.learner.recorded_pair import positive
from tests.learner.some_stream import batch, engine_of, network
from torch import nn

from recollect import DERpp, DivergedError, InputError, Learner
from recollect.train.compiled import compiler_exists


def learner_with(module: nn.Module, **how: Any) -> Learner:
    return Learner(module, DERpp(), memory=12, replay=4, lr=0.05, **how)


def _linear() -> nn.Module:
    torch.manual_seed(1)
    return positive(nn.Linear(4, 3))


@pytest.mark.skipif(not compiler_exists(), reason="there is no C++ compiler on this machine")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "error::recollect.errors.SlowerWarning")
def test_compiled_steps_are_those_taken_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """To rounding; a failed one is undone exactly; rare sizes are not compiled."""
    plain, fast = (learner_with(_linear(), compiled=how) for how in (False, True))
    for step in range(30):
        size = 3 if step % 10 == 9 else 5
        loss = plain.observe(*batch(step, size))
        assert fast.observe(*batch(step, size)) == pytest.approx(loss, abs=1e-5)
    assert "compiled" in engine_of(fast).fleet.execution
    found = engine_of(fast).fleet._stepper._compiled
    assert found is not None
    assert len(found._ready) == 1
    for name, tensor in engine_of(fast).fleet.tensors().items():
        torch.testing.assert_close(
            tensor, engine_of(plain).fleet.tensors()[name], rtol=1e-4, atol=1e-5
        )
    before = fast._packed()
    x, y = batch(30)
    with pytest.raises(DivergedError):
        fast.observe(np.full_like(x, 3e38), y, on_outlier="learn")
    assert fast._packed() == before


def test_compiled_is_refused_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recollect.learner.settings.compiler_exists", lambda: False)
    with pytest.raises(InputError, match=r"no C\+\+ compiler was found"):
        learner_with(network(), compiled=True)
    with pytest.raises(InputError, match="compiled must be True or False"):
        learner_with(network(), compiled="yes")
