"""Thousands of malformed inputs: only the documented errors, and not a bit of the learner changes.

5,000 inputs and more in all: each test counts those that it really tried.
"""

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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save
from torch import Tensor, nn

from recollect import MLP, DataError, DERpp, DivergedError, InputError, Learner
from recollect.learner.file import packed, unpacked

EACH, DAMAGED, SENSELESS = 310, 900, 800
FEATURES = 6

fuzzed = settings(
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[
        HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture,
    ],
)  # fmt: skip

# A first feature of this and more asks the transform or the network for trouble.
TROUBLE = 1000


class NoTruth:
    """A missing value, as some libraries have it: to compare it is neither true nor false."""

    def __eq__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("ambiguous")

    __hash__ = object.__hash__


class NoArray:
    """Calls itself an array and is none."""

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        raise OSError("gone")


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
    made = {
        "growing": Learner(MLP(FEATURES, 1, hidden=(5,)), method, memory=20, replay=4),
        "fixed": Learner(MLP(FEATURES, 3, hidden=(5,)), method, memory=20, classes=[0, 1, 2]),
        "adam": Learner(
            Troubled(), method, memory=20, replay=4, optimiser="AdamW", lr=0.01, window=7
        ),
        "transformed": Learner(
            MLP(FEATURES, 1, hidden=(5,)), method, memory=20, replay=4, optimiser="SGD",
            optimiser_options={"momentum": 0.9}, transform=lambda x: _troubled(x, lambda x: x + 1),
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


good_y = st.lists(st.integers(0, 2), min_size=1, max_size=5)
bad_numbers = st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -4e38])
junk = st.one_of(
    st.none(), st.text(), st.binary(), st.dictionaries(st.text(), st.integers(), max_size=2),
    st.integers(10**19, 10**400), st.complex_numbers(), st.just(object()), st.just(NoArray()),
    st.just(b""), st.just({1, 2}), st.dates(), st.just(range(0)), st.just(lambda: 0),
)  # fmt: skip
bad_labels = st.one_of(
    st.just(float("nan")), st.just([]), st.just({}), st.just({1}), st.just(np.zeros(2)),
    st.just(NoTruth()), st.just(torch.zeros(2)), st.just((1, float("nan"))), st.just(([],)),
    st.just(bytearray(b"x")), st.just(slice(0)), st.just(np.float32("nan")),
    st.just(torch.tensor(float("nan"))),
)  # fmt: skip


@st.composite
def malformed(draw: st.DrawFn, what: str) -> tuple[str, Any, Any]:
    """For which learner, and an input that has this fault."""
    y: Any = draw(good_y)
    n = len(y)
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    x: Any = rng.normal(size=(n, FEATURES)).astype(np.float32)
    who = draw(st.sampled_from(["growing", "fixed", "adam", "transformed"]))
    if what == "shape":
        wrong = st.lists(st.integers(0, 7), max_size=4).filter(lambda s: s != [n, FEATURES])
        x = np.zeros(draw(wrong), np.float32)
    elif what == "type":
        types = [object, "U3", "S2", "c8", "c16", "M8[s]", "i4", "i8", "u1", "u8", "f2", "V4"]
        x = x.astype("f4").astype(draw(st.sampled_from(types)), casting="unsafe")
    elif what == "not finite":
        x = x.astype(draw(st.sampled_from(["f8", "f4"])))
        with np.errstate(over="ignore"):
            x[draw(st.integers(0, n - 1)), draw(st.integers(0, FEATURES - 1))] = draw(bad_numbers)
        forms: list[Callable[[Any], Any]] = [np.asarray, torch.from_numpy, np.ndarray.tolist]
        x = draw(st.sampled_from(forms))(x)
    elif what == "ragged":
        x = x.tolist()
        x[draw(st.integers(0, n - 1))] = draw(st.lists(st.floats(-1, 1), max_size=5))
        x = [*x, [0.0]]
    elif what == "junk":
        x = draw(st.one_of(junk, st.lists(junk, min_size=1, max_size=4)))
    elif what == "tensor":
        odd: list[Callable[[], Any]] = [
            lambda: torch.zeros(n, FEATURES).to_sparse(),
            lambda: torch.zeros(n, FEATURES, device="meta"),
            lambda: torch.zeros(n, FEATURES, dtype=torch.complex64),
            lambda: torch.zeros(n, FEATURES, dtype=torch.int32),
            lambda: [torch.ones(FEATURES, requires_grad=True)] * n,
        ]
        x = draw(st.sampled_from(odd))()
    elif what == "count":
        y = draw(st.lists(st.integers(0, 2), max_size=8).filter(lambda y: len(y) != n))
        kinds: list[Callable[[Any], Any]] = [list, np.array, torch.tensor]
        y = draw(st.sampled_from(kinds))(y)
    elif what == "label":
        y = [*y]
        y[draw(st.integers(0, n - 1))] = draw(bad_labels)
    elif what == "labels":
        wrong_y: list[Callable[[], Any]] = [
            lambda: np.array([y]), lambda: torch.tensor(y, dtype=torch.bfloat16), lambda: NoArray(),
            lambda: torch.tensor(y).float().to_sparse(), lambda: torch.zeros(n, device="meta"),
            lambda: {1: 2}, lambda: float("nan"), lambda: iter(y), lambda: np.array(y)[:, None],
            lambda: (*y, 0), lambda: None,
        ]  # fmt: skip
        y = draw(st.sampled_from(wrong_y))()
    elif what == "unknown":
        who = "fixed"
        y[draw(st.integers(0, n - 1))] = draw(
            st.one_of(st.integers(3), st.integers(max_value=-1), st.text(), st.tuples(st.text()))
        )
    elif what == "trouble":
        who = draw(st.sampled_from(["adam", "transformed"]))
        x[0, 0] = TROUBLE + draw(st.integers(0, len(ANSWERS) - 1))
    if draw(st.booleans()) and what != "unknown" and isinstance(y, list) and who != "fixed":
        y = [f"new {label}" if type(label) is int else label for label in y]
    return who, x, y


KINDS = (
    "shape", "type", "not finite", "ragged", "junk", "tensor", "count", "label", "labels",
    "unknown", "trouble",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
@pytest.mark.parametrize("what", KINDS)
def test_observe_refuses_what_is_malformed_and_stays_what_it_was(what: str) -> None:
    tried = Counter[str]()

    @settings(fuzzed, max_examples=EACH)
    @given(malformed(what))
    def observe(case: tuple[str, Any, Any]) -> None:
        who, x, y = case
        learner = learners()[who]
        before = whole(learner)
        allowed: tuple[type[BaseException], ...] = (InputError, DivergedError)
        if what == "trouble" and int(x[0, 0]) - TROUBLE == ERRORS.index(KeyboardInterrupt):
            allowed = (KeyboardInterrupt,)
        with pytest.raises(allowed) as caught:
            learner.observe(x, y)
        assert type(caught.value) in allowed
        assert str(caught.value).strip()
        assert whole(learner) == before
        tried[who] += 1

    observe()
    assert tried.total() >= EACH, tried


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
    facts, tensors = unpacked(files()[number])
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
    return packed(plain, tensors)


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


def test_at_least_5000_inputs_are_tried_here() -> None:
    assert EACH * len(KINDS) + DAMAGED + SENSELESS >= 5000


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
