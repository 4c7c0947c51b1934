"""Learners that earlier versions saved still load, and go on as they would have."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from recollect import MLP, Learner
from recollect.files import unpack

FILES = Path(__file__).with_name("files")
X = torch.arange(18).view(3, 6) / 18


class Said(NamedTuple):
    """What version 0.1.0 said after it had saved a file, and its next losses on `X`."""

    probabilities: list[list[float]]
    losses: list[float]


SAID = {
    "learner": Said(
        [
            [0.35112193111379314, 0.30086229569847117, 0.3480157731877357],
            [0.5503140286708519, 0.1901625230571833, 0.2595234482719647],
            [0.7332790272829689, 0.1021852215124965, 0.16453575120453448],
        ],
        [2.879889488220215],
    ),
    "er-hybrid": Said(
        [
            [0.321832200208847, 0.4057283990106272, 0.2724394007805258],
            [0.47720090746014543, 0.29834848909336026, 0.22445060344649437],
            [0.6428125311625772, 0.19537516422833906, 0.16181230460908394],
        ],
        [1.109310507774353, 1.1074210405349731, 1.1177374124526978],
    ),
    "er-kmeans": Said(
        [
            [0.32292870840880483, 0.3831880745532164, 0.29388321703797876],
            [0.47685585037402073, 0.28280472171893856, 0.24033942790704083],
            [0.6401609956718735, 0.18675139586525089, 0.17308760846287555],
        ],
        [0.8944267630577087, 0.8910929560661316, 0.8652798533439636],
    ),
    "gss": Said(
        [
            [0.33599328345999924, 0.3834825577639862, 0.28052415877601455],
            [0.5105946120056496, 0.26654361505152546, 0.22286177294282475],
            [0.6855600464334839, 0.16162101604543344, 0.1528189375210827],
        ],
        [1.0148285627365112, 0.8753742575645447, 0.9761075973510742],
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_a_learner_of_version_0_1_loads_and_learns_on(name: str) -> None:
    learner = Learner.load(FILES / f"{name}-0.1.recollect", MLP(6, 3, hidden=(8,)))
    said = SAID[name]
    assert learner.seen == 48
    names = np.array(["red", "green", "blue"])
    assert learner.predict(X) == names[np.argmax(said.probabilities, 1)].tolist()
    np.testing.assert_allclose(learner.predict_proba(X), said.probabilities, rtol=1e-5)
    losses = [learner.observe(X, ["red", "red", "blue"]) for _ in said.losses]
    np.testing.assert_allclose(losses, said.losses, rtol=1e-5)


def test_the_files_have_the_old_names() -> None:
    """What is `state.` and `counts.` now was `own.` and `met.` then."""
    parts = set()
    for path in FILES.glob("*.recollect"):
        _, tensors = unpack(path.read_bytes())
        parts |= {name.split(".")[1] for name in tensors if name.startswith("engine.")}
    assert parts == {"weights", "memory", "own", "met"}
