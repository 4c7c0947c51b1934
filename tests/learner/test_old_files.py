"""Learners that earlier versions saved still load, and go on as they would have."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recollect import MLP, DERpp, Learner
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


# Saved when all optimisers were torch's own, by learners with these arguments besides.
BY_TORCH: dict[str, tuple[dict[str, Any], Said]] = {
    "adam": (
        {"optimiser": "Adam", "optimiser_options": {"betas": (0.8, 0.99)}},
        Said(
            [
                [0.40643872315999197, 0.3261158600545044, 0.2674454167855036],
                [0.48378383419668586, 0.3063640641156933, 0.2098521016876208],
                [0.516228562355344, 0.29814512476330435, 0.18562631288135173],
            ],
            [
                1.5952494144439697,
                1.604403018951416,
                1.5982152223587036,
                1.541574239730835,
                3.245852470397949,
                3.088461399078369,
            ],
        ),
    ),
    "adamw": (
        {"optimiser": "AdamW"},
        Said(
            [
                [0.41658791942377704, 0.3221505852611335, 0.2612614953150894],
                [0.5027557131986021, 0.2979915331527907, 0.19925275364860706],
                [0.5402791919260558, 0.28678293266988725, 0.172937875404057],
            ],
            [
                1.599713921546936,
                1.6168415546417236,
                1.6211817264556885,
                1.5726152658462524,
                3.2616617679595947,
                3.138251781463623,
            ],
        ),
    ),
    "momentum": (
        {"optimiser_options": {"momentum": 0.9, "nesterov": True}},
        Said(
            [
                [0.4446184414264853, 0.30791471809306586, 0.24746684048044884],
                [0.4909257230705803, 0.2978781740590956, 0.21119610287032414],
                [0.5020388562726468, 0.30000713273753454, 0.19795401098981877],
            ],
            [
                1.5539283752441406,
                1.559016466140747,
                1.5639146566390991,
                1.494886875152588,
                3.1989920139312744,
                3.0882728099823,
            ],
        ),
    ),
    "rmsprop": (
        {"optimiser": "RMSprop"},
        Said(
            [
                [0.33364885733215144, 0.3673856360298772, 0.29896550663797133],
                [0.3883574652425929, 0.3524596810908828, 0.25918285366652427],
                [0.4102926879151907, 0.34584693029916963, 0.24386038178563973],
            ],
            [
                1.7740178108215332,
                1.5740641355514526,
                1.5084551572799683,
                1.3508429527282715,
                3.1897506713867188,
                2.897552728652954,
            ],
        ),
    ),
}


class Partly(nn.Module):
    """A network with a layer that is never called, so that torch has no state for it."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.unused, self.head = nn.Linear(6, 8), nn.Linear(3, 2), nn.Linear(8, 1)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(torch.tanh(self.body(x)))
        return found


@pytest.mark.parametrize("name", BY_TORCH)
def test_a_learner_whose_optimiser_was_torchs_learns_on(name: str, tmp_path: Path) -> None:
    """With the averages that it had: the losses are those that came next, also after growth."""
    path = FILES / "torch" / f"{name}.recollect"
    learner, (how, said) = Learner.load(path, Partly()), BY_TORCH[name]
    assert learner.seen == 32
    np.testing.assert_allclose(learner.predict_proba(X), said.probabilities, rtol=1e-5)
    labels = [["red", "red", "blue"]] * 4 + [["one", "two", "three"], ["red", "two", "blue"]]
    losses = [learner.observe(X, each) for each in labels]
    np.testing.assert_allclose(losses, said.losses, rtol=1e-5)
    (tmp_path / "000000000000032.recollect").write_bytes(path.read_bytes())
    same = Learner(Partly(), DERpp(), memory=5, replay=4, lr=0.02, seed=1, spare=2, **how)
    assert same.resumed(tmp_path) is not None
    learner.save(tmp_path / "again")
    assert Learner.load(tmp_path / "again", Partly())._packed() == learner._packed()


def test_the_files_have_the_old_names() -> None:
    """What is `state.` and `counts.` now was `own.` and `met.` then."""
    parts = set()
    for path in FILES.glob("*.recollect"):
        _, tensors = unpack(path.read_bytes())
        parts |= {name.split(".")[1] for name in tensors if name.startswith("engine.")}
    assert parts == {"weights", "memory", "own", "met"}
