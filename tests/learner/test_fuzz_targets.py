"""Fuzz learners of values, of several labels and of mappings: targets, weights and files."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzzed import fuzzed
from tests.parts import Texts, texts
from tests.torture import times
from torch import nn

from recollect import MLP, DataError, DERpp, DivergedError, InputError, Learner
from recollect.files import pack, unpack

KINDS = ("regression", "labels", "mapping")
X = np.random.default_rng(0).normal(size=(60, 5, 3)).astype(np.float32)
EACH = times(400)


def network(kind: str) -> nn.Module:
    return Texts(1) if kind == "mapping" else MLP(3, 2 if kind == "regression" else 1, hidden=(5,))


def example(kind: str, step: int) -> tuple[Any, Any]:
    """A batch of five examples, and its targets."""
    if kind == "mapping":
        x, y = texts(5, seed=step)
        return x, y.tolist()
    if kind == "regression":
        return X[step], 100 + X[step, :, :2]
    return X[step], [{n for n in range(3) if row[n] > 0} for row in X[step]]


def learner_of(kind: str) -> Learner:
    torch.manual_seed(0)
    target = "class" if kind == "mapping" else kind
    learner = Learner(network(kind), DERpp(0.2, 1.0), memory=20, replay=4, target=target)
    for step in range(8):
        learner.observe(*example(kind, step), weight=1.5 if step == 7 else None)
    return learner


@cache
def learned(kind: str) -> bytes:
    return learner_of(kind)._packed()


numbers = st.one_of(st.floats(), st.integers(-(2**70), 2**70), st.booleans())
scalars = st.one_of(
    numbers, st.none(), st.text(max_size=3), st.binary(max_size=2), st.complex_numbers()
)
hashables = st.one_of(scalars, st.tuples(scalars), st.frozensets(scalars, max_size=2))
targets = st.one_of(
    scalars, st.lists(scalars, max_size=6), st.lists(st.lists(numbers, max_size=3), max_size=6),
    st.lists(st.sets(hashables, max_size=3), max_size=6),
    st.lists(st.lists(hashables, max_size=3), min_size=5, max_size=5),
    st.lists(st.floats(-1e3, 1e3), min_size=5, max_size=5), st.sets(hashables, max_size=5),
    st.builds(np.zeros, st.lists(st.integers(0, 6), max_size=3)), st.just(object()),
    st.dictionaries(st.text(max_size=2), numbers, max_size=2),
    st.lists(numbers, min_size=5, max_size=5).map(lambda y: np.array(y, dtype=object)),
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS[:2])
def test_any_target_and_weight_is_learned_or_refused_before_anything_changes(kind: str) -> None:
    tried, made = Counter[str](), [learner_of(kind)]

    @settings(fuzzed, max_examples=EACH)
    @given(targets, st.one_of(st.none(), scalars, st.lists(numbers, max_size=6)), st.booleans())
    def observe(y: Any, weight: Any, single: bool) -> None:
        (learner,), (x, good) = made, example(kind, 9)
        before = learner._packed()
        for target, weights in ((y, None), (good, weight)):
            chosen = target[0] if single and target is good else target
            try:
                loss = learner.observe(x[0] if single else x, chosen, weight=weights)
            except (InputError, DivergedError):
                tried["refused"] += 1
                assert learner._packed() == before
                continue
            assert isinstance(loss, float)
            tried["learned"] += 1
            made[0] = learner = Learner._from_bytes(learned(kind), network(kind), None, {})
            before = learned(kind)

    observe()
    assert min(tried["refused"], tried["learned"]) > EACH / 20, tried


values = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 10**18), st.floats(-1e300, 1e300),
    st.text(max_size=4), st.lists(st.integers(-3, 9), max_size=3),
    st.sampled_from(["class", "regression", "labels", "int64", "float32"]),
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_make_no_sense_are_refused_or_those_of_another_learner(
    kind: str, tmp_path: Path
) -> None:
    tried, path = Counter[str](), tmp_path / "learner"
    own = {"regression": "values", "labels": "labels", "mapping": "kind"}[kind]
    assert own in unpack(learned(kind))[0]

    @settings(fuzzed, max_examples=EACH)
    @given(st.data())
    def load(data: st.DataObject) -> None:
        facts, tensors = unpack(learned(kind))
        facts.pop("format", None)
        place: Any = facts
        key: Any = own if data.draw(st.booleans()) else data.draw(st.sampled_from(sorted(facts)))
        while isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
            place = place[key]
            keys = sorted(place) if isinstance(place, dict) else range(len(place))
            key = data.draw(st.sampled_from(keys))
        place[key] = data.draw(values)
        path.write_bytes(pack(facts, tensors))
        try:
            learner = Learner.load(path, network(kind))
        except (InputError, DataError):
            tried["refused"] += 1
            return
        tried["another learner"] += 1
        before = learner._packed()
        try:
            learner.observe(*example(kind, 9))
            learner.predict(example(kind, 9)[0])
        except (InputError, DivergedError):
            assert learner._packed() == before

    load()
    assert tried["refused"] > tried["another learner"], tried
