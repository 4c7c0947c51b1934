"""A learner whose examples are mappings or tuples of tensors."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parts import CLASSES, LENGTH, Output, Pair, Texts, pairs, texts
from tests.torture import times
from torch import Tensor, nn
from torch.utils.data import DataLoader

from recollect import ER, MLP, DataError, DERpp, InputError, Learner
from recollect.files import pack, unpack
from recollect.methods import NCM, SCR, SLDA, Method


def learner_of(network: nn.Module | None = None, **options: Any) -> Learner:
    torch.manual_seed(0)
    options = {"memory": 30, "lr": 0.1, "replay": 8, **options}
    return Learner(network or Texts(1), DERpp(0.3, 0.5), **options)


def observe(learner: Learner, steps: range) -> list[float]:
    losses = []
    for step in steps:
        x, y = texts(8, seed=step)
        losses.append(learner.observe(x, [f"class {label}" for label in y.tolist()]))
    return losses


@pytest.mark.parametrize("method", [DERpp(0.3, 0.5), ER(balanced=True), SCR(), NCM(), SLDA()])
def test_it_learns_from_mappings_and_grows(method: Method) -> None:
    torch.manual_seed(0)
    learner = Learner(Texts(1), method, memory=60, lr=0.3)
    observe(learner, range(60))
    x, y = texts(60, seed=99)
    said = learner.predict(x)
    right = np.mean(
        [each == f"class {label}" for each, label in zip(said, y.tolist(), strict=True)]
    )
    assert right > 0.6
    assert set(learner.classes) == {f"class {label}" for label in range(CLASSES)}
    assert learner.predict({name: part[0] for name, part in x.items()}) == said[0]
    assert learner.predict_proba(x).shape == (60, CLASSES)


def test_arrays_lists_and_any_order_of_names_are_the_same_as_tensors() -> None:
    one, other = learner_of(), learner_of()
    for step in range(4):
        x, y = texts(8, seed=step)
        mixed = {name: x[name] for name in reversed(x)}
        mixed |= {"input_ids": x["input_ids"].tolist(), "size": x["size"].double().numpy()}  # type: ignore[dict-item]
        assert one.observe(x, y) == other.observe(mixed, tuple(y.tolist()))
    x, _ = texts(3, seed=9)
    np.testing.assert_array_equal(one.predict_proba(x), other.predict_proba(x))
    first = {name: part[0] for name, part in x.items()}
    assert one.observe(first, 2) == other.observe({n: t.numpy() for n, t in first.items()}, 2)


def test_saved_loaded_pickled_and_resumed_it_goes_on_bit_for_bit(tmp_path: Path) -> None:
    learner = learner_of(checkpoints=tmp_path / "folder", checkpoint_every=5)
    observe(learner, range(10))
    learner.flush()
    learner.save(tmp_path / "file")
    learner.release_folder()
    others = [
        Learner.load(tmp_path / "file", Texts(1)),
        Learner.resume(tmp_path / "folder", Texts(1)),
        pickle.loads(pickle.dumps(learner)),
    ]
    wanted = observe(learner, range(10, 16))
    for other in others:
        assert other is not None
        assert observe(other, range(10, 16)) == wanted
        assert other._packed() == learner._packed()
        other.close()


def test_a_step_that_fails_changes_nothing() -> None:
    learner = learner_of()
    observe(learner, range(5))
    before = learner._packed()
    x, y = texts(8)
    with pytest.raises(Exception, match="index out of range"):
        learner.observe({**x, "input_ids": x["input_ids"] + 10**6}, y)
    assert learner._packed() == before


def test_the_trained_module_is_the_users_own() -> None:
    learner = learner_of()
    observe(learner, range(10))
    module = learner.trained_module().eval()
    assert type(module) is Texts
    assert module.classifier.out_features == CLASSES
    x, _ = texts(5, seed=3)
    found = module(**x)
    assert type(found) is Output
    shares = found.logits.detach().double().softmax(1).numpy()
    np.testing.assert_allclose(shares, learner.predict_proba(x), atol=1e-6)


def test_an_output_that_cannot_be_cut_keeps_its_form() -> None:
    class Scaled(Texts):
        def forward(self, **named: Any) -> Output:  # type: ignore[override]
            logits = super().forward(**named).logits
            return Output(logits - logits.mean(1, keepdim=True))

    torch.manual_seed(0)
    learner = Learner(Scaled(6), ER(), classes=["a", "b"], memory=10)
    x, _ = texts(4)
    learner.observe(x, ["a", "b", "a", "b"])
    found = learner.trained_module()(**x)
    assert type(found) is Output
    assert found.logits.shape == (4, 2)


def test_a_network_with_plain_inputs_may_give_an_object() -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(3, 1)

        def forward(self, x: Tensor) -> Output:
            return Output(self.head(x))

    torch.manual_seed(0)
    wrapped, plain = Wrapped(), nn.Sequential(nn.Linear(3, 1))
    plain[0].load_state_dict(wrapped.head.state_dict())
    one, other = (Learner(net, DERpp(), memory=10) for net in (wrapped, plain))
    for step in range(5):
        x = np.random.default_rng(step).normal(size=(4, 3))
        assert one.observe(x, [0, 1, 2, 0]) == other.observe(x, [0, 1, 2, 0])
    assert one.predict(x) == other.predict(x)


def test_a_network_in_double_precision_gets_reals_of_its_type() -> None:
    learner = learner_of(Texts(1).double())
    observe(learner, range(4))
    assert learner.predict_proba(texts(2)[0]).dtype == np.float64


def test_tuples_go_to_a_network_that_needs_several_arguments() -> None:
    learner = learner_of(Pair(1))
    for step in range(30):
        x, y = pairs(8, seed=step)
        learner.observe(x, y)
    x, y = pairs(40, seed=99)
    said = learner.predict(list(x))
    assert np.mean(np.array(said) == y.numpy()) > 0.7
    assert learner.predict((x[0][0], x[1][0])) == said[0]
    with pytest.raises(InputError, match="a tuple of '0'"):
        learner.predict(torch.zeros(3))
    with pytest.raises(InputError, match="'1' is missing"):
        learner.observe((x[0],), y)


@pytest.mark.parametrize(
    "x",
    [(1.0, 2.0), ((1.0, 2.0), (3.0, 4.0)), (np.ones(2), np.zeros(2)), [torch.ones(2)] * 2],
)
def test_tuples_for_a_network_of_one_argument_are_what_they_were(x: Any) -> None:
    learner = Learner(MLP(2, 1), ER(), memory=4)
    learner.observe(x, [0, 1] if len(np.shape(x)) > 1 else 0)
    assert learner.seen == (2 if len(np.shape(x)) > 1 else 1)


@pytest.mark.parametrize("labels", [None, "labels", "label"])
def test_it_follows_a_data_loader_of_mappings(labels: str | None) -> None:
    x, y = texts(24)
    rows = [{name: part[row] for name, part in x.items()} for row in range(24)]
    numbers: list[int] = y.tolist()
    items: list[Any] = (
        list(zip(rows, numbers, strict=True))
        if labels is None
        else [{**row, labels: number} for row, number in zip(rows, numbers, strict=True)]
    )
    learner, other = learner_of(), learner_of()
    losses = list(learner.follow(DataLoader(items, batch_size=8)))  # type: ignore[arg-type]
    parts = range(0, 24, 8)
    wanted = [other.observe({n: t[i : i + 8] for n, t in x.items()}, y[i : i + 8]) for i in parts]
    assert losses == wanted
    with pytest.raises(InputError, match="without 'labels'"):
        list(learner.follow([{"input_ids": 1, "size": 2}]))


def test_it_follows_a_data_loader_of_tuples() -> None:
    (left, right), y = pairs(12)
    items = [((left[row], right[row]), int(y[row])) for row in range(12)]
    learner = learner_of(Pair(1))
    assert len(list(learner.follow(DataLoader(items, batch_size=4)))) == 3  # type: ignore[arg-type]


def test_only_reals_are_judged_and_named_in_the_reason() -> None:
    learner = learner_of()
    observe(learner, range(40))
    x, y = texts(4, seed=77)
    x["size"][1, 1], x["size"][2, 0] = 1e6, float("nan")
    before = learner.seen
    learner.observe(x, [f"class {label}" for label in y.tolist()])
    assert learner.seen == before + 2
    assert learner.metrics().left_out == 2
    assert "number 1 of 'size' has the magnitude 1e+06" in learner.outliers[-2].reason
    assert "not finite" in learner.outliers[-1].reason
    with pytest.raises(InputError, match="not finite"):
        learner.predict(x)


def test_token_ids_are_no_magnitudes() -> None:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(100_000, 4), nn.Linear(4, 1)

        def forward(self, ids: Tensor) -> Tensor:
            return self.head(self.words(ids).mean(1))  # type: ignore[no-any-return]

    learner = Learner(Words(), ER(), memory=10)
    for number in [1, 2, 3, 99_999]:
        learner.observe({"ids": [[number, 1]] * 60}, [number % 2] * 60)
    assert learner.metrics().left_out == 0


def test_a_transform_gets_the_mapping_and_what_is_stored_stays() -> None:
    def masked(x: dict[str, Tensor]) -> dict[str, Tensor]:
        x["attention_mask"].logical_and_(torch.rand(x["attention_mask"].shape) > 0.5)
        return x

    learner = learner_of(transform=masked, replay_transform=masked)
    assert observe(learner, range(6)) != observe(learner_of(), range(6))
    kind = learner._now.ready().kind
    assert kind.packing is not None
    stored = kind.packing.unpack(learner._now.ready().fleet.memory.tensors["x"][:8])
    assert any(torch.equal(row, texts(8, seed=0)[0]["attention_mask"][0])
               for row in stored["attention_mask"])  # fmt: skip


class Encoder(nn.Module):
    """Sums of embedded words, beside two measurements."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 8)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, size: Tensor) -> Tensor:
        there = attention_mask.unsqueeze(-1)
        return torch.cat([(self.words(input_ids) * there).sum(1), size], 1)


def test_an_encoder_takes_the_mapping() -> None:
    torch.manual_seed(0)
    encoder = Encoder()
    learner = Learner(MLP(10, 1), ER(), memory=20, encoder=encoder)
    observe(learner, range(10))
    x, _ = texts(5)
    assert learner._now.ready().fleet.memory.tensors["x"].shape[1:] == (10,)
    shares = learner.trained_module()(**x).detach().double().softmax(1).numpy()
    np.testing.assert_allclose(shares, learner.predict_proba(x), atol=1e-6)
    again = pickle.loads(pickle.dumps(learner))
    assert observe(again, range(10, 13)) == observe(learner, range(10, 13))
    with pytest.raises(InputError, match="'size' is missing"):
        learner.predict({name: part for name, part in x.items() if name != "size"})


def test_a_network_that_does_not_take_the_names_is_refused() -> None:
    with pytest.raises(InputError, match=r"'input_ids' \[6\] of int64.*unexpected key"):
        learner_of(Pair(1)).observe(*texts(4))


def test_a_file_whose_packing_contradicts_itself_is_refused(tmp_path: Path) -> None:
    learner = learner_of()
    observe(learner, range(3))
    learner.save(tmp_path / "file")
    facts, tensors = unpack((tmp_path / "file").read_bytes())
    for change in (
        {"parts": [["input_ids", [LENGTH], "int64"]], "named": True},
        {"parts": [["input_ids", [LENGTH], "nothing"]], "named": True},
        {"parts": 3}, None,
    ):  # fmt: skip
        facts["kind"]["packing"] = change
        (tmp_path / "bad").write_bytes(pack(facts, tensors))
        with pytest.raises(DataError, match="bad"):
            Learner.load(tmp_path / "bad", Texts(1))


fields = st.sampled_from(["input_ids", "attention_mask", "size", "new", 3])
values: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.text(max_size=2), st.integers(-5, 5), st.floats(), st.just({}), st.just([[1], 2]),
    st.builds(torch.zeros, st.lists(st.integers(0, 8), max_size=3)),
    st.builds(lambda n: torch.zeros(n, LENGTH, dtype=torch.int64), st.integers(0, 9)),
    st.just(torch.zeros(8, 2, dtype=torch.complex64)), st.just(object()),
    st.just(torch.eye(2).to_sparse()),
)  # fmt: skip
FUZZED: list[Learner] = []


@settings(max_examples=times(1000), deadline=None)
@given(st.dictionaries(fields, values, max_size=4), st.booleans(), st.sampled_from([None, "x"]))
def test_fuzz_what_does_not_fit_is_refused_and_changes_nothing(
    change: dict[Any, Any], only: bool, label: str | None
) -> None:
    if not FUZZED:
        FUZZED.append(learner_of(on_outlier="raise"))
        observe(FUZZED[0], range(3))
    (learner,) = FUZZED
    good, _ = texts(8)
    x = change if only else {**good, **change}
    fits = x.keys() == good.keys() and all(
        isinstance(x[n], Tensor) and x[n].shape == good[n].shape and x[n].dtype == good[n].dtype
        for n in good
    )
    if fits:
        return
    before = learner._packed()
    calls: list[Callable[[], Any]] = [
        lambda: learner.observe(x, label or ["class 0"] * 8),
        lambda: learner.predict(x),
    ]
    for call in calls if not (change.keys() <= {"size"} and not only) else calls[:1]:
        with pytest.raises(InputError):
            call()
    assert learner._packed() == before
