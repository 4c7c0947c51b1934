"""Packed examples come back bit for bit, whatever their layout; networks get what was given."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.parts import Output, Texts, texts
from torch import Tensor

from recollect import InputError
from recollect.core.calling import call, logits_of
from recollect.core.modules import Features
from recollect.core.packing import STORED, Packing, Part

shapes = st.lists(st.integers(1, 4), max_size=3).map(tuple)
layouts = st.dictionaries(
    st.sampled_from(["a", "b", "c", "input_ids", "ü"]),
    st.tuples(shapes, st.sampled_from(STORED)),
    min_size=1,
)


def random_bits(shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    """Any bits, NaN among them; truth values are 0 or 1."""
    rng = np.random.default_rng(seed)
    count = math.prod(shape) * dtype.itemsize
    found = torch.from_numpy(rng.integers(0, 2 if dtype == torch.bool else 256, count, np.uint8))
    return found.view(dtype).view(shape)


def bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)


@settings(max_examples=150, deadline=None)
@given(layouts, st.integers(1, 4), st.booleans(), st.integers(0, 1000))
def test_any_layout_comes_back_bit_for_bit(
    layout: dict[str, tuple[tuple[int, ...], torch.dtype]], rows: int, named: bool, seed: int
) -> None:
    batch = {
        name: random_bits((rows, *shape), dtype, seed + number)
        for number, (name, (shape, dtype)) in enumerate(layout.items())
    }
    packing = Packing.of(batch, named=named)
    packed = packing.pack(batch)
    assert (packed.shape, packed.dtype) == ((rows, packing.words), torch.int32)
    assert packing.words == sum(-(-t[0].numel() * t.element_size() // 4) for t in batch.values())
    for some in (packed, packed.unsqueeze(0), torch.cat([packed, packed], 1)[:, : packing.words]):
        found = packing.unpack(some)
        assert found.keys() == batch.keys()
        for name, tensor in batch.items():
            assert found[name].dtype == tensor.dtype
            assert found[name].shape == (*some.shape[:-1], *tensor.shape[1:])
            assert torch.equal(bits(found[name]), bits(tensor))
    assert Packing.restored(packing.plain()) == packing
    packing.check(Packing.of({name: batch[name] for name in reversed(batch)}, named=True)
                  if named else packing)  # fmt: skip


def test_one_row_in_the_middle_is_read_although_it_is_not_aligned() -> None:
    batch = {"a": torch.tensor([[True]]), "b": torch.tensor([[2**40, -5]])}
    packing = Packing.of(batch)
    assert packing.unpack(packing.pack(batch))["b"].tolist() == [[2**40, -5]]
    assert packing.unpack(packing.pack(batch)[0])["b"].tolist() == [2**40, -5]


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float32, np.float16])
def test_an_axis_of_length_1_may_have_any_stride(rows: int, dtype: type[np.generic]) -> None:
    batch = {"a": torch.from_numpy(np.arange(rows, dtype=dtype)[:, None])}
    assert batch["a"].stride(-1) == 0
    packing = Packing.of(batch)
    assert torch.equal(packing.unpack(packing.pack(batch))["a"], batch["a"])


def test_what_is_unpacked_has_memory_of_its_own() -> None:
    packing = Packing((Part("a", (2,), torch.float32),))
    rows = packing.pack({"a": torch.ones(1, 2)})
    packing.unpack(rows)["a"].zero_()
    assert packing.unpack(rows)["a"].tolist() == [[1.0, 1.0]]


def test_reals_are_what_can_be_far_outside() -> None:
    x, _ = texts(3)
    packing = Packing.of(x)
    rows = packing.pack(x)
    reals = packing.floats(rows)
    assert reals is not None
    torch.testing.assert_close(reals, x["size"])
    assert packing.real_name(1) == "number 1 of 'size'"
    assert Packing.of({"ids": x["input_ids"]}).floats(rows[:, :12]) is None
    image = {"image": torch.rand(2, 3, 4), "meta": torch.rand(2, 1)}
    found = Packing.of(image).floats(Packing.of(image).pack(image))
    assert found is not None
    assert found.shape == (2, 1, 13), "columns are compared only where all are features"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_network_gets_what_was_given_and_reals_in_its_own_type(dtype: torch.dtype) -> None:
    x, _ = texts(3)
    net, packing = Texts().to(dtype), Packing.of(x)
    wanted = net(x["input_ids"], x["attention_mask"], x["size"].to(dtype)).logits
    torch.testing.assert_close(call(net, packing.pack(x), packing, dtype), wanted)


def test_features_pass_through_an_object() -> None:
    x, _ = texts(3)
    net = Texts()
    with Features(net).returned():
        assert net(**x).shape == (3, 12)


def test_what_gives_no_logits_is_refused() -> None:
    tensor = torch.ones(1, 2)
    assert logits_of(tensor) is logits_of(Output(tensor)) is logits_of({"logits": tensor}) is tensor
    for output in (None, [tensor], {"loss": tensor}, Output("text")):  # type: ignore[arg-type]
        with pytest.raises(InputError, match="a mapping or object with a tensor `logits`"):
            logits_of(output)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ids": None}, "'ids' is missing"),
        ({"new": torch.zeros(1, 1)}, "'new' is unexpected"),
        ({"ids": torch.zeros(1, 4, dtype=torch.int64)}, r"'ids' \[4\] of int64 must be \[3\]"),
        ({"ids": torch.zeros(1, 3, dtype=torch.int32)}, r"of int32 must be \[3\] of int64"),
    ],
)
def test_another_layout_is_refused_by_name(change: dict[str, Tensor | None], said: str) -> None:
    batch = {"ids": torch.zeros(1, 3, dtype=torch.int64), "size": torch.zeros(1, 2)}
    other = {name: t for name, t in {**batch, **change}.items() if t is not None}
    with pytest.raises(InputError, match=said):
        Packing.of(batch).check(Packing.of(other))
    with pytest.raises(InputError, match="a mapping with 'ids'"):
        Packing.of(batch).check(None)


@pytest.mark.parametrize(
    ("gives", "said"),
    [
        (lambda x: x["size"], "must return a mapping"),
        (lambda x: {"size": x["size"]}, "'ids' is not"),
        (lambda x: {**x, "size": x["size"][:, :1]}, "'size' is not"),
        (lambda x: {**x, "ids": x["ids"].float()}, "'ids' is not"),
    ],
)
def test_a_transform_that_gives_something_else_is_refused(gives: object, said: str) -> None:
    batch = {"ids": torch.zeros(1, 3, dtype=torch.int64), "size": torch.zeros(1, 2)}
    packing = Packing.of(batch)
    with pytest.raises(InputError, match=said):
        packing.over(gives)(packing.pack(batch))  # type: ignore[arg-type]
