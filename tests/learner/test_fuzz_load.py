"""Files that are damaged, or that make no sense: loading refuses them as documented."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from tests.fuzzed import fuzzed
from tests.learner.fuzzing import FEATURES, Troubled, learners, whole
from tests.torture import times
from torch import Tensor, nn

from recollect import MLP, DataError, DivergedError, InputError, Learner
from recollect.files import pack, unpack

DAMAGED, SENSELESS = times(1100), times(1000)


@cache
def files() -> list[bytes]:
    return [learner._packed() for learner in learners().values()]


def fresh(number: int) -> nn.Module:
    return Troubled() if number == 2 else MLP(FEATURES, 3 if number == 1 else 1, hidden=(5,))


@st.composite
def damaged(draw: st.DrawFn) -> tuple[int, bytes]:
    """Bytes of which not one is as it was written, whole."""
    number = draw(st.integers(0, 3))
    data = files()[number]
    place = draw(st.integers(0, len(data) - 1))
    how = draw(st.sampled_from(["cut", "flip", "splice", "random", "foreign", "longer", "hole"]))
    if how == "cut":
        found = data[:place]
    elif how == "flip":
        found = (
            data[:place] + bytes([data[place] ^ (1 << draw(st.integers(0, 7)))]) + data[place + 1 :]
        )
    elif how == "splice":
        found = data[:place] + files()[(number + 1) % 4][place:]
    elif how == "random":
        found = draw(st.binary(max_size=200))
    elif how == "longer":
        found = data + draw(st.binary(min_size=1, max_size=20))
    elif how == "hole":
        end = place + draw(st.integers(1, 50))
        found = data[:place] + data[end:]
    else:
        words = st.text(max_size=5)
        about = draw(st.one_of(st.none(), st.dictionaries(words, words, max_size=3)))
        known = draw(st.sampled_from([{}, {"recollect": "{}"}, {"recollect": '{"format": 1}'}]))
        found = save({"w": torch.zeros(3)}, {**(about or {}), **known})
    return number, found[:-1] if found in files() else found


def test_load_refuses_every_damage(tmp_path: Path) -> None:
    tried = Counter[int]()
    path = tmp_path / "learner"

    @settings(fuzzed, max_examples=DAMAGED)
    @given(damaged())
    def load(case: tuple[int, bytes]) -> None:
        number, data = case
        path.write_bytes(data)
        with pytest.raises(DataError) as caught:
            Learner.load(path, fresh(number))
        assert str(path) in str(caught.value)
        tried[number] += 1

    load()
    assert tried.total() >= DAMAGED


values = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**30), 10**30),
    st.sampled_from([0, -1, 2**31, 10**18]),
    st.floats(), st.text(max_size=4), st.lists(st.integers(-3, 9), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.sampled_from(["er", "der", "gem", "float64", "complex64", "nn", "int64", "Adam", "LBFGS"]),
)  # fmt: skip


@st.composite
def senseless(draw: st.DrawFn) -> tuple[int, bytes]:
    """A file with the right checksum whose facts or tensors were never those of a learner."""
    number = draw(st.integers(0, 3))
    facts, tensors = unpack(files()[number])
    place: Any = facts
    for _ in range(draw(st.integers(1, 3))):
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        inside = place[key]
        if isinstance(inside, dict | list) and inside and draw(st.booleans()):
            place = inside
            continue
        how = draw(st.sampled_from(["change", "change", "drop", "tensor"]))
        if how == "drop":
            del place[key]
        elif how == "change":
            place[key] = draw(values)
        else:
            name = draw(st.sampled_from(sorted(tensors)))
            odd: list[Callable[[Tensor], Tensor | None]] = [
                lambda t: None, lambda t: t.flatten()[:0], lambda t: t.double(),
                lambda t: t.unsqueeze(0), lambda t: torch.zeros(1, dtype=t.dtype),
                lambda t: torch.cat([t.view(-1)] * 2),
            ]  # fmt: skip
            found = draw(st.sampled_from(odd))(tensors[name])
            tensors.pop(name)
            if found is not None:
                tensors[name] = found.contiguous()
        break
    facts.pop("format", None)
    return number, _packed_anyhow(facts, tensors)


def _packed_anyhow(facts: dict[str, Any], tensors: dict[str, Tensor]) -> bytes:
    """As `packed` does, but numbers that are not finite are written as they are."""
    plain = json.loads(json.dumps(facts), parse_constant=lambda _: 10**400)
    return pack(plain, tensors)


def test_load_refuses_facts_that_make_no_sense(tmp_path: Path) -> None:
    tried = Counter[str]()
    path = tmp_path / "learner"
    x = np.zeros((2, FEATURES), np.float32)

    @settings(fuzzed, max_examples=SENSELESS)
    @given(senseless())
    def load(case: tuple[int, bytes]) -> None:
        number, data = case
        path.write_bytes(data)
        try:
            learner = Learner.load(path, fresh(number))
        except (InputError, DataError):
            tried["refused"] += 1
            return
        # Other facts can be those of another learner, such as a lower rate; then it must work.
        tried["another learner"] += 1
        before = whole(learner)
        try:
            learner.observe(x, [0, 1])
        except (InputError, DivergedError):
            assert whole(learner) == before
        learner.predict(x)

    load()
    assert tried.total() >= SENSELESS
    assert tried["refused"] > 2 * tried["another learner"], tried


@pytest.mark.parametrize("where", ["missing", "folder", "missing/inside"])
def test_load_needs_a_file(where: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(DataError, match=where):
        Learner.load(tmp_path / where, fresh(0))


@pytest.mark.parametrize(
    "network",
    [
        MLP(FEATURES, 1, hidden=(4,)), MLP(FEATURES + 1, 1, hidden=(5,)), MLP(FEATURES, 90, (5,)),
        nn.Linear(FEATURES, 1), nn.Flatten(), MLP(FEATURES, 1, hidden=(5, 5)),
        MLP(FEATURES, 1, hidden=(5,)).double(), nn.Sequential(MLP(FEATURES, 1, hidden=(5,))),
    ],
)  # fmt: skip
def test_load_refuses_another_network(network: nn.Module, tmp_path: Path) -> None:
    (tmp_path / "learner").write_bytes(files()[0])
    with pytest.raises((InputError, DataError)):
        Learner.load(tmp_path / "learner", network)
