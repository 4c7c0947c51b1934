"""Fleets whose networks take several tensors: the invariants of all others hold for them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.parts import CLASSES, Pair, Texts, pairs, texts
from tests.torture import FULL
from torch import Tensor, nn
from torch.utils.data import Dataset

import recollect
from recollect import ER, DERpp, Fleet, InputError, Method, from_arrays
from recollect.core.packing import Packing
from recollect.methods import AGEM, EWC, GEM, GSS, SCR
from recollect.streams.tasks import TaskStream
from recollect.train import inputs_of
from recollect.train.compiled import compiler_exists
from recollect.train.fingerprint import stream_fingerprint

METHODS: list[list[Method]] = [
    [DERpp(0.3, 0.5), DERpp(0.1, 1.0), DERpp(0.6, 0.0)], [ER()] * 3, [AGEM()] * 3,
    [GSS(gmbs=3)] * 3, [SCR(projection=4)] * 3,
]  # fmt: skip
COMPILES = pytest.mark.skipif(
    not compiler_exists() or not FULL, reason="it takes a C++ compiler, and half a minute"
)


def fleet_of(methods: list[Method], runs: list[int], **way: bool) -> tuple[Fleet, Packing]:
    packing = Packing.of(texts(1)[0])
    seeds, rates = [7, 8, 9], [0.1, 0.05, 0.2]
    fleet = Fleet(
        [methods[run] for run in runs], Texts, seeds=[seeds[run] for run in runs],
        lr=[rates[run] for run in runs], classes=CLASSES, shape=(packing.words,), memory=12,
        replay=4, stored=torch.int32, packing=packing, dtype=torch.float64,
        recorded=way.get("recorded"), compiled=way.get("compiled"),
    )  # fmt: skip
    return fleet, packing


def examples(packing: Packing, runs: list[int], count: int = 48) -> tuple[Tensor, Tensor]:
    found = [texts(count, seed=run) for run in runs]
    return torch.stack([packing.pack(x) for x, _ in found]), torch.stack([y for _, y in found])


@pytest.mark.parametrize("methods", METHODS, ids=[each[0].name for each in METHODS])
def test_run_k_of_a_fleet_is_the_same_run_alone(methods: list[Method]) -> None:
    together, packing = fleet_of(methods, [0, 1, 2])
    x, y = examples(packing, [0, 1, 2])
    together.learn(x, y, 4)
    for run in range(3):
        alone, _ = fleet_of(methods, [run])
        alone.learn(x[run : run + 1], y[run : run + 1], 4)
        stored = alone.memory.fields()
        for name, tensor in together.memory.fields().items():
            exact = name in ("x", "y")
            torch.testing.assert_close(
                stored[name][0], tensor[run], rtol=0, atol=0 if exact else 1e-9
            )
        for name, tensor in together.weights.named().items():
            torch.testing.assert_close(
                alone.weights.named()[name][0], tensor[run], rtol=0, atol=1e-9
            )
        torch.testing.assert_close(
            together.predict(x)[run], alone.predict(x[run : run + 1])[0], rtol=0, atol=1e-9
        )


def test_a_long_stretch_is_many_short_ones() -> None:
    whole, packing = fleet_of(METHODS[0], [0, 1])
    pieces, _ = fleet_of(METHODS[0], [0, 1])
    x, y = examples(packing, [0, 1])
    whole.learn(x, y, 4)
    for start in range(0, 48, 8):
        pieces.learn(x[:, start : start + 8], y[:, start : start + 8], 4)
    for name, tensor in whole.tensors().items():
        assert torch.equal(tensor, pieces.tensors()[name]), name


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=COMPILES)])
def test_recording_and_compiling_change_nothing(compiled: bool) -> None:
    plain, packing = fleet_of(METHODS[0], [0])
    fast, _ = fleet_of(METHODS[0], [0], recorded=True, compiled=compiled)
    x, y = examples(packing, [0], 124)
    for fleet in (plain, fast):
        fleet.learn(x, y, 4)
    assert fast.execution == f"loop, recorded step{', compiled' if compiled else ''}"
    for name, tensor in plain.tensors().items():
        exact = not tensor.is_floating_point()
        atol = 0 if exact else 1e-9
        torch.testing.assert_close(fast.tensors()[name], tensor, rtol=0, atol=atol)


def stream(**options: object) -> TaskStream:
    x, y = texts(240)
    return from_arrays(x, y, tasks=2, **options)  # type: ignore[arg-type]


def test_a_run_learns_and_its_network_is_the_users_own(tmp_path: Path) -> None:
    made = stream()
    found = recollect.run(
        made, "derpp", buffer=40, network=Texts, seeds=2, lr=0.3, epochs=3, workers=1,
        save_networks=tmp_path,
    )  # fmt: skip
    assert found[0].accuracy["class"] > 60
    module = found[0].module(Texts)
    assert type(module) is Texts
    assert module.state_dict().keys() == Texts().state_dict().keys()
    right = 0
    for task in range(2):
        x, y = made.test(torch.tensor([0]), task)
        given = inputs_of(made, x[0])
        assert given.keys() == {"input_ids", "attention_mask", "size"}
        right += int((module(**given).logits.argmax(1) == y[0]).sum())
    counts = [len(made.test(torch.tensor([0]), task).y[0]) for task in range(2)]
    assert abs(100 * right / sum(counts) - found[0].accuracy["class"]) < 3


def test_a_tuple_of_arrays_goes_to_the_network_by_position() -> None:
    x, y = pairs(240)
    made = from_arrays(tuple(part.numpy() for part in x), y.numpy(), tasks=2)
    found = recollect.run(made, "er", buffer=40, network=Pair, seeds=1, lr=0.1, epochs=3, workers=1)
    assert found[0].accuracy["class"] > 60
    assert isinstance(inputs_of(made, made.test_x), tuple)


@pytest.mark.parametrize("method", [EWC(), GEM()])
def test_methods_with_boundaries_and_fisher_information_take_them(method: Method) -> None:
    buffer = 20 if method.replay else None
    found = recollect.run(
        stream(), method, buffer=buffer, network=Texts, seeds=1, lr=0.05, workers=1
    )
    assert not found[0].diverged


def test_a_transform_gets_the_mapping_and_counts_in_the_identity() -> None:
    seen = []

    def transform(x: dict[str, Tensor]) -> dict[str, Tensor]:
        seen.append({name: (tuple(t.shape[1:]), t.dtype) for name, t in x.items()})
        return {**x, "size": x["size"] + torch.rand_like(x["size"])}

    made = stream(transform=transform)
    recollect.run(made, "er", buffer=10, network=Texts, seeds=1, lr=0.1, workers=1)
    assert seen[0] == {
        "input_ids": ((6,), torch.int64), "attention_mask": ((6,), torch.bool),
        "size": ((2,), torch.float32),
    }  # fmt: skip
    assert stream_fingerprint(made) != stream_fingerprint(stream())


def test_the_names_of_the_tensors_count_in_the_identity_and_nothing_changed_for_others() -> None:
    x, y = texts(40)
    renamed = {name.replace("size", "sizes"): tensor for name, tensor in x.items()}
    assert stream_fingerprint(from_arrays(x, y)) != stream_fingerprint(from_arrays(renamed, y))
    plain = from_arrays(torch.arange(80.0).view(40, 2), torch.arange(40) % 4)
    assert stream_fingerprint(plain) == "c0ec991b7eb3b062", "as before there were packings"


def test_an_encoder_takes_the_mapping(tmp_path: Path) -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(20, 16)

        def forward(self, input_ids: Tensor, attention_mask: Tensor, size: Tensor) -> Tensor:
            there = attention_mask.unsqueeze(-1)
            return torch.cat([(self.words(input_ids) * there).sum(1), size], 1)

    encoder = Encoder()
    made = stream()
    features = recollect.encode(made, encoder, folder=tmp_path)
    assert (features.shape, features.packing) == ((18,), None)
    with torch.no_grad():
        wanted = encoder(**inputs_of(made, made.train_x))
    torch.testing.assert_close(features.train_x, wanted)
    found = recollect.run(features, "er", buffer=20, seeds=1, lr=0.1, workers=1)
    assert found[0].accuracy["class"] > 50


class Items(Dataset[object]):
    """Items whose examples are mappings or tuples."""

    def __init__(self, named: bool) -> None:
        self.x: dict[str, Tensor] | tuple[Tensor, Tensor]
        self.x, self.y = texts(60) if named else pairs(60)
        self.strange: dict[int, object] = {}

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, number: int) -> tuple[object, int]:
        x = self.x
        if isinstance(x, dict):
            example: object = {name: tensor[number].numpy() for name, tensor in x.items()}
        else:
            example = tuple(part[number] for part in x)
        return self.strange.get(number, example), int(self.y[number])


@pytest.mark.parametrize("named", [True, False])
def test_a_data_set_of_torch_may_have_mappings_and_tuples(named: bool) -> None:
    items = Items(named)
    made, wanted = recollect.from_dataset(items, tasks=2), from_arrays(items.x, items.y, tasks=2)
    assert made.packing == wanted.packing
    assert torch.equal(made.train_x, wanted.train_x)
    first = items[0][0]
    items.strange[3] = {**first, "size": torch.zeros(5)} if isinstance(first, dict) else first[:1]  # type: ignore[index]
    with pytest.raises(InputError, match="item 3 of train"):
        recollect.from_dataset(items)


REFUSED: list[tuple[dict[str, object], dict[str, object], str]] = [
    ({"size": torch.zeros(39, 2)}, {}, "different numbers of examples"),
    ({"size": [1.0] * 40}, {}, r"x\['size'\] is a list"),
    ({"size": torch.full((40, 2), float("nan"))}, {}, r"x\['size'\] has NaN"),
    ({"size": torch.zeros(40, 0)}, {}, "at least one example is needed"),
    ({3: torch.zeros(40)}, {}, "must be strings"),  # type: ignore[dict-item]
    ({}, {"scenario": "permuted", "tasks": 2}, "cannot be permuted"),
    ({}, {"flip": True}, "these examples have several tensors"),
    ({}, {"test": ({"size": torch.zeros(4, 2)}, torch.arange(4))}, "is missing"),
]


@pytest.mark.parametrize(("change", "options", "said"), REFUSED)
def test_arrays_that_do_not_fit_are_refused(
    change: dict[str, object], options: dict[str, object], said: str
) -> None:
    x, _ = texts(40)
    with pytest.raises(InputError, match=said):
        from_arrays({**x, **change}, torch.arange(40) % 4, **options)  # type: ignore[arg-type]


def test_a_network_that_does_not_take_them_is_refused_by_their_names() -> None:
    with pytest.raises(InputError, match="network=") as refused:
        recollect.run(stream(), "sgd", seeds=1)
    assert "'input_ids' [6] of int64" in str(refused.value)
    with pytest.raises(InputError, match="unexpected keyword argument"):
        recollect.run(stream(), "sgd", seeds=1, network=Pair, lr=0.1, workers=1)
