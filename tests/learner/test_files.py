"""Saving, loading, copying and resuming: what comes back goes on as if it had never stopped."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from recollect import ER, MLP, SGD, DataError, DERpp, InputError, Learner, Method, Replay, Step
from recollect import cross_entropy as loss_of
from recollect.core.torch_optimiser import torch_optimisers
from recollect.methods import METHODS

FIT = {
    kind.name: kind
    for kind in METHODS.values()
    if not (kind.needs.boundaries or kind.needs.task_id or kind.needs.all_data)
}
ASK_FOR_CLASSES = {"er-ring", "er-kmeans", "er-mof", "er-hybrid"}


def batch(step: int, classes: int = 3) -> tuple[np.ndarray, list[str]]:
    rng = np.random.default_rng(step)
    labels = [f"class {n}" for n in rng.integers(min(classes, 1 + step), size=4)]
    return rng.normal(size=(4, 4)).astype(np.float32), labels


def network() -> nn.Module:
    torch.manual_seed(3)
    return MLP(4, 1, hidden=(6,))


def normalised() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1)
    )


def by_file(learner: Learner, module: nn.Module, folder: Path) -> Learner:
    learner.save(folder / "learner")
    return Learner.load(folder / "learner", module)


def by_pickle(learner: Learner, module: nn.Module, folder: Path) -> Learner:
    again: Learner = pickle.loads(pickle.dumps(learner))
    return again


def by_copy(learner: Learner, module: nn.Module, folder: Path) -> Learner:
    return copy.deepcopy(learner)


Way = Callable[[Learner, nn.Module, Path], Learner]


@pytest.mark.parametrize("way", [by_file, by_pickle, by_copy])
@pytest.mark.parametrize("name", sorted(FIT))
def test_it_goes_on_as_if_it_had_never_stopped(name: str, way: Way, tmp_path: Path) -> None:
    classes = [f"class {n}" for n in range(3)] if name in ASK_FOR_CLASSES else None

    def learner() -> Learner:
        return Learner(network(), FIT[name](), memory=12, replay=4, lr=0.05, classes=classes)

    whole, parts = learner(), learner()
    for step in range(12):
        assert whole.observe(*batch(step)) == parts.observe(*batch(step))
        if step % 4 == 1:
            before = parts
            parts = way(parts, network(), tmp_path)
            assert parts is not before
    assert parts._packed() == whole._packed()
    x, _ = batch(99)
    np.testing.assert_array_equal(parts.predict_proba(x), whole.predict_proba(x))
    assert parts.metrics() == whole.metrics()
    assert parts.classes == whole.classes


@pytest.mark.parametrize("way", [by_file, by_pickle, by_copy])
@pytest.mark.parametrize("optimiser", sorted(torch_optimisers()))
def test_so_do_all_optimisers_and_networks_with_a_state(
    optimiser: str, way: Way, tmp_path: Path
) -> None:
    def learner() -> Learner:
        options = {"betas": (0.8, 0.99)} if optimiser == "Adam" else {}
        return Learner(
            normalised(), DERpp(), memory="300 B", optimiser=optimiser, optimiser_options=options,
            classes=["class 0", "class 1"] if optimiser == "Adafactor" else None,
        )  # fmt: skip

    whole, parts = learner(), learner()
    for step in range(6):
        whole.observe(*batch(step, classes=2))
        parts.observe(*batch(step, classes=2))
        if step % 2:
            parts = way(parts, normalised(), tmp_path)
    assert parts._packed() == whole._packed()


def test_a_learner_that_has_seen_nothing_can_be_saved(tmp_path: Path) -> None:
    learner = Learner(network(), ER(), memory="3 kB", lr=0.2, seed=4, replay=7, window=9)
    again = by_file(learner, network(), tmp_path)
    assert again.seen == 0
    assert again._settings == learner._settings
    assert learner.observe(*batch(0)) == again.observe(*batch(0))
    assert again._packed() == learner._packed()


def test_saving_changes_nothing(tmp_path: Path) -> None:
    learner, other = (Learner(network(), DERpp(), memory=10) for _ in range(2))
    for step in range(5):
        learner.observe(*batch(step))
        other.observe(*batch(step))
        learner.save(tmp_path / "learner")
    assert learner._packed() == other._packed()


def test_saved_says_how_much_is_safe(tmp_path: Path) -> None:
    learner = Learner(network(), ER())
    assert not isinstance(learner.saved, int)
    learner.observe(*batch(0))
    learner.save(tmp_path / "learner")
    learner.observe(*batch(1))
    assert [learner.saved, learner.seen] == [4, 8]
    assert Learner.load(tmp_path / "learner", network()).saved == 4


def test_notes_go_with_it(tmp_path: Path) -> None:
    learner = Learner(network(), ER())
    learner.observe(*batch(0))
    learner.notes = {
        "file": "day-3.csv",
        "row": 17,
        "list": [1, None, True, 0.5],
        "deep": {"ä": {}},
    }
    assert by_file(learner, network(), tmp_path).notes == learner.notes
    assert copy.deepcopy(learner).notes == learner.notes


def test_a_copy_is_independent() -> None:
    learner = Learner(network(), ER(), memory=10)
    learner.observe(*batch(0))
    before = learner._packed()
    other = copy.deepcopy(learner)
    other.observe(*batch(1))
    assert learner._packed() == before
    assert other._packed() != before


OTHERS: dict[str, Callable[[], nn.Module]] = {
    "wider": lambda: MLP(4, 1, hidden=(7,)),
    "deeper": lambda: MLP(4, 1, hidden=(6, 6)),
    "other names": lambda: nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1)),
    "more outputs": lambda: MLP(4, 90, hidden=(6,)),
    "other inputs": lambda: MLP(5, 1, hidden=(6,)),
    "other type": lambda: MLP(4, 1, hidden=(6,)).double(),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_another_architecture_is_refused(kind: str, tmp_path: Path) -> None:
    learner = Learner(network(), DERpp(), memory=10)
    for step in range(4):
        learner.observe(*batch(step))
    learner.save(tmp_path / "learner")
    with pytest.raises(InputError, match="network"):
        Learner.load(tmp_path / "learner", OTHERS[kind]())


def test_an_architecture_that_would_broadcast_is_refused(tmp_path: Path) -> None:
    learner = Learner(MLP(4, 1, hidden=(1,)), ER())
    learner.observe(*batch(0))
    learner.save(tmp_path / "learner")
    with pytest.raises(InputError, match="network"):
        Learner.load(tmp_path / "learner", network())


@dataclass(frozen=True)
class Own(Method):
    """Someone's method."""

    weight: float | Tensor = 2.0

    name: ClassVar[str] = "own"
    title: ClassVar[str] = "Own"
    replay: ClassVar[Replay] = Replay(("x", "y"))

    def loss(self, step: Step) -> Tensor:
        past = step.draw()
        now, then = step.net(step.x, past.x)
        return loss_of(now, step.y) + self.weight * loss_of(then, past.y)


def test_a_method_of_ones_own_is_passed_again(tmp_path: Path) -> None:
    learner = Learner(network(), Own(3.0), memory=10)
    learner.observe(*batch(0))
    learner.save(tmp_path / "learner")
    with pytest.raises(InputError, match="a custom method, 'own': pass it"):
        Learner.load(tmp_path / "learner", network())
    with pytest.raises(InputError, match="has the method 'own', not 'er'"):
        Learner.load(tmp_path / "learner", network(), method=ER())
    again = Learner.load(tmp_path / "learner", network(), method=Own(3.0))
    assert learner.observe(*batch(1)) == again.observe(*batch(1))


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none' cannot be read: No such file"):
        Learner.load(tmp_path / "none", network())
    for content in (b"", b"text", bytes(1000)):
        (tmp_path / "some").write_bytes(content)
        with pytest.raises(DataError, match="some: it was not written by recollect"):
            Learner.load(tmp_path / "some", network())
    learner = Learner(network(), SGD())
    learner.observe(*batch(0))
    with pytest.raises(DataError, match="cannot be written"):
        learner.save(tmp_path / "some" / "deeper")
    assert learner.saved is None


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    learner = Learner(network(), ER(), memory=4)
    learner.observe(*batch(0))
    learner.save(tmp_path / "learner")
    whole = (tmp_path / "learner").read_bytes()
    for place in [9, 100, len(whole) // 2, len(whole) - 1]:
        changed = bytearray(whole)
        changed[place] ^= 1
        (tmp_path / "learner").write_bytes(changed)
        with pytest.raises(DataError):
            Learner.load(tmp_path / "learner", network())
