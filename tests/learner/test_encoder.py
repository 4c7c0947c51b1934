"""A learner behind a frozen encoder: raw examples go in, features are learned and stored."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.learner.some_stream import engine_of
from torch import Tensor, nn

from recollect import ER, MLP, DERpp, InputError, Learner, Method
from recollect.methods import NCM, SLDA, ClosedForm, RanPAC
from recollect.train.fingerprint import weights_fingerprint

SHAPE, SIZE = (3, 6, 6), 7
METHODS: list[Method] = [ER(), DERpp(), NCM(), SLDA(), RanPAC(M=20)]


class Encoder(nn.Module):
    """Convolutions with all that must be in evaluation mode; works in place; counts its calls."""

    rows = 0

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.net = nn.Sequential(
                nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(0.5),
                nn.Flatten(), nn.Linear(64, SIZE),
            )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        Encoder.rows += len(x)
        x.mul_(2)
        features: Tensor = self.net(x)
        return features


def pictures(steps: int, size: int = 8) -> Iterator[tuple[np.ndarray, list[str]]]:
    rng = np.random.default_rng(0)
    for _ in range(steps):
        y = rng.integers(3, size=size)
        x = rng.integers(0, 100, (size, *SHAPE)) + 50 * y[:, None, None, None]
        yield x.astype(np.uint8), [f"class {label}" for label in y]


def learner_with(method: Method, steps: int = 12, **more: Any) -> Learner:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head = MLP(SIZE, 1, hidden=() if isinstance(method, ClosedForm) else (9,))
    learner = Learner(head, method, encoder=Encoder(), memory=20, lr=0.1, **more)
    for x, y in pictures(steps):
        learner.observe(x, y)
    return learner


def encoded(x: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = Encoder().eval()(torch.tensor(x) / 255).numpy()
    return found


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_it_is_the_learner_of_the_features(method: Method) -> None:
    inside = learner_with(method)
    torch.manual_seed(0)
    outside = Learner(copy.deepcopy(inside._module), method, memory=20, lr=0.1)
    for x, y in pictures(12):
        outside.observe(encoded(x), y)
    x, _ = next(pictures(1, 30))
    np.testing.assert_allclose(
        inside.predict_proba(x), outside.predict_proba(encoded(x)), rtol=1e-4, atol=1e-5
    )
    assert inside.classes == outside.classes
    assert inside.memory_bytes == outside.memory_bytes
    assert inside.predict(x[0]) == inside.predict(x)[0], "one example, not a batch"


def test_the_encoder_never_sees_a_replayed_example() -> None:
    Encoder.rows = 0
    learner = learner_with(DERpp(), steps=10)
    assert Encoder.rows == 80
    assert engine_of(learner).fleet.memory.tensors["x"].shape == (21, SIZE)


def test_a_size_of_memory_counts_features() -> None:
    learner = Learner(MLP(SIZE, 1), ER(), encoder=Encoder(), memory="360 B")
    learner.observe(*next(pictures(1)))
    assert engine_of(learner).fleet.memory.capacity == 360 // (4 * SIZE + 8)


def test_the_encoder_stays_as_it_is_and_belongs_to_the_user() -> None:
    encoder, x = Encoder().train(), np.full((2, *SHAPE), 0.5, dtype=np.float32)
    before = weights_fingerprint(encoder)
    learner = Learner(MLP(SIZE, 1), DERpp(), encoder=encoder, lr=0.1)
    learner.observe(x, ["a", "b"])
    assert encoder.training
    assert all(weight.requires_grad for weight in encoder.parameters())
    assert (x == 0.5).all(), "it works in place on a copy"
    (first, second) = (learner.predict_proba(x[0]) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    with torch.no_grad():
        encoder.net[0].weight.zero_()  # type: ignore[operator]
    np.testing.assert_array_equal(learner.predict_proba(x[0]), first)
    settings = learner._settings.encoder
    assert settings is not None
    assert weights_fingerprint(settings.module) == before


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_the_trained_module_has_both(method: Method) -> None:
    learner = learner_with(method)
    x, _ = next(pictures(1, 30))
    module = learner.trained_module().eval()
    with torch.no_grad():
        scores = module(torch.tensor(x) / 255)[:, : len(learner.classes)]
    np.testing.assert_allclose(
        scores.double().softmax(1).numpy(), learner.predict_proba(x), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_it_continues_from_its_file(method: Method, tmp_path: Path) -> None:
    learner, x = learner_with(method), next(pictures(1, 30))[0]
    learner.save(tmp_path / "file")
    learner_with(method, checkpoints=tmp_path / "here", checkpoint_every=4).close()
    head = learner._module
    copies = [
        Learner.load(tmp_path / "file", head, encoder=Encoder()),
        pickle.loads(pickle.dumps(learner)),
        copy.deepcopy(learner),
    ]
    learner.observe(*next(pictures(1)))
    for each in copies:
        each.observe(*next(pictures(1)))
        np.testing.assert_array_equal(each.predict_proba(x), learner.predict_proba(x))
    resumed = Learner.resume(tmp_path / "here", head, encoder=Encoder())
    assert resumed is not None
    with resumed:
        resumed.observe(*next(pictures(1)))
        np.testing.assert_array_equal(resumed.predict_proba(x), learner.predict_proba(x))
    again = learner_with(method, steps=0).resumed(tmp_path / "here")
    assert again is not None
    assert again.seen == 96


def test_another_encoder_is_refused(tmp_path: Path) -> None:
    learner_with(ER()).save(tmp_path / "file")
    head = MLP(SIZE, 1, hidden=(9,))
    for encoder, sentence in ((None, "pass it as encoder="), (Encoder(1), "other weights")):
        with pytest.raises(InputError, match=sentence):
            Learner.load(tmp_path / "file", head, encoder=encoder)
    plain = Learner(MLP(4, 1), ER())
    plain.save(tmp_path / "plain")  # nothing was observed yet
    with pytest.raises(InputError, match="has no encoder: leave encoder="):
        Learner.load(tmp_path / "plain", MLP(4, 1), encoder=Encoder())


class Scaled(Encoder):
    """The same weights, and other code."""

    scale = 1.0

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * super().forward(x)


def test_an_encoder_with_other_code_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    learner_with(ER()).save(tmp_path / "file")
    head = MLP(SIZE, 1, hidden=(9,))
    Learner.load(tmp_path / "file", head, encoder=Encoder())
    assert not caplog.messages
    Learner.load(tmp_path / "file", head, encoder=Scaled())
    assert ["the code or an attribute of the encoder" in each for each in caplog.messages] == [True]
    learner = Learner(head, ER(), encoder=Scaled())
    learner.save(tmp_path / "file")
    other = Scaled()
    other.scale = 2.0
    Learner.load(tmp_path / "file", head, encoder=other)
    assert len(caplog.messages) == 2


def test_a_learner_that_has_seen_nothing_is_saved_with_its_encoder(tmp_path: Path) -> None:
    Learner(MLP(SIZE, 1), ER(), encoder=Encoder()).save(tmp_path / "file")
    learner = Learner.load(tmp_path / "file", MLP(SIZE, 1), encoder=Encoder())
    learner.observe(*next(pictures(1)))
    assert learner.seen == 8


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (np.zeros((2, 3, 5, 5), np.uint8), r"must have the shape \[3, 6, 6\]"),
        (np.zeros((2, *SHAPE), np.float32), "must be uint8, like the first ones"),
        (np.full((2, *SHAPE), np.nan), "must be uint8, like the first ones"),
    ],
)
def test_wrong_examples_are_refused_and_change_nothing(x: np.ndarray, sentence: str) -> None:
    learner = learner_with(DERpp(), steps=3)
    before = learner._packed()
    with pytest.raises(InputError, match=sentence):
        learner.observe(x, ["class 0", "class 1"])
    with pytest.raises(InputError):
        learner.predict(x)
    assert learner._packed() == before


def test_what_the_encoder_cannot_take_is_refused_before_anything_is_fixed() -> None:
    learner = Learner(MLP(SIZE, 1), DERpp(), encoder=Encoder())
    with pytest.raises(InputError, match=r"the encoder does not accept examples of shape \[4\]"):
        learner.observe(np.zeros((2, 4), np.float32), ["a", "b"])
    learner.observe(*next(pictures(1)))
    with pytest.raises(InputError, match=r"must be a torch\.nn\.Module, not str"):
        Learner(MLP(SIZE, 1), DERpp(), encoder="resnet")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", [NCM(), SLDA(), RanPAC(M=20)], ids=lambda m: m.name)
def test_closed_form_heads_take_classes_as_they_come(method: Method) -> None:
    classes = [f"class {label}" for label in range(3)]
    x, _ = next(pictures(1, 30))
    grown = learner_with(method, spare=0)
    listed = learner_with(method, spare=10)
    torch.manual_seed(0)
    assert sorted(map(str, grown.classes)) == classes
    np.testing.assert_allclose(
        grown.predict_proba(x), listed.predict_proba(x), rtol=1e-6, atol=1e-9
    )


def test_others_predict_while_one_learns() -> None:
    learner, found = learner_with(DERpp(), steps=3), list[int]()
    x, _ = next(pictures(1, 5))
    others = [
        threading.Thread(target=lambda: found.append(len(learner.predict(x)))) for _ in range(4)
    ]
    for each in others:
        each.start()
    for batch in pictures(5):
        learner.observe(*batch)
    for each in others:
        each.join()
    assert found == [5] * 4
