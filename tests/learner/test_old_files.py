"""Learners that earlier versions saved still load, and go on as they would have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from recollect import MLP, Learner

OLD = Path(__file__).with_name("files") / "learner-0.1.recollect"
X = torch.arange(18).view(3, 6) / 18
# What version 0.1.0 said after it had saved the file.
PROBABILITIES = [
    [0.35112193111379314, 0.30086229569847117, 0.3480157731877357],
    [0.5503140286708519, 0.1901625230571833, 0.2595234482719647],
    [0.7332790272829689, 0.1021852215124965, 0.16453575120453448],
]
NEXT_LOSS = 2.879889488220215


def test_a_learner_of_version_0_1_loads_and_learns_on() -> None:
    learner = Learner.load(OLD, MLP(6, 3, hidden=(8,)))
    assert learner.seen == 48
    assert learner.predict(X) == ["red", "red", "red"]
    np.testing.assert_allclose(learner.predict_proba(X), PROBABILITIES, rtol=1e-5)
    loss = learner.observe(X, ["red", "red", "blue"])
    np.testing.assert_allclose(loss, NEXT_LOSS, rtol=1e-5)
