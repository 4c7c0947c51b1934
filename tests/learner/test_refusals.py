"""Arguments that make no sense are refused with a sentence that says what to do."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from recollect import ER, MLP, DataError, DERpp, InputError, Learner, from_arrays, run


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"method": "er"}, r"one of recollect\.methods, such as DERpp\(\), not 'er'"),
        ({"method": ER}, r"one of recollect\.methods, such as DERpp\(\), not <class"),
        ({"optimiser": torch.optim.AdamW}, r"in torch\.optim, such as 'AdamW', not <class"),
        ({"device": "abacus"}, "unknown device 'abacus'"),
        ({"device": 1.5}, r"unknown device '1\.5'"),
        ({"device": "cuda:99"}, "there is no device|torch finds no GPU"),
        ({"device": "meta"}, "cannot compute on the device 'meta' here"),
        ({"classes": 3}, "a list of all labels there will be, not 3"),
        ({"classes": "abc"}, "a list of all labels there will be, not 'abc'"),
        ({"transform": "flip"}, "transform must be a function that takes a batch, not 'flip'"),
        ({"replay_transform": 2}, "replay_transform must be a function that takes a batch, not 2"),
        ({"module": MLP(4, 1).requires_grad_(False)}, "all parameters of the network are frozen"),
    ],
)
def test_a_learner_that_cannot_be_made(told: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Learner(**{"module": MLP(4, 1), "method": DERpp(), **told})


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (5, r"an iterable of pairs \(x, y\), not int"),
        ([5], r"a pair \(x, y\), or a mapping with 'labels', not int"),
        ([([0.0] * 4, "a", 1)], "not 3 parts"),
        (["ab"], "not str"),
        (np.zeros((2, 4)), "not ndarray"),
    ],
)
def test_streams_that_cannot_be_followed(stream: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(Learner(MLP(4, 1), ER()).follow(stream))


def test_a_data_set_of_torch_can_be_followed() -> None:
    data = torch.utils.data.TensorDataset(torch.eye(4), torch.arange(4))
    learner = Learner(MLP(4, 1), ER())
    list(learner.follow(data))  # type: ignore[arg-type]
    assert learner.seen == 4


def test_classes_come_from_anything_that_lists_them() -> None:
    for classes in (range(2), np.arange(2), (0, 1), {0: "no", 1: "yes"}):
        assert Learner(MLP(4, 2), ER(), classes=classes).classes == [0, 1]  # type: ignore[arg-type]


def test_a_device_may_be_left_to_torch() -> None:
    learner = Learner(MLP(4, 1), ER(), device="auto")
    learner.observe(np.ones(4, "float32"), "a")
    assert learner.predict(np.ones(4, "float32")) == "a"


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.array([[1, "a"]], dtype=object), "not ndarray of objects: convert them"),
        (np.array(["1", "2"]), "not ndarray of strings"),
        (["1", "2"], "not list$"),
        (None, "not NoneType$"),
        ([1, 2, 3, 4], "integers are for embeddings: convert other examples to float32"),
    ],
)
def test_examples_that_are_no_numbers_for_this_network(x: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Learner(MLP(4, 1), ER()).observe(x, "a")


def test_another_type_than_before_says_how_to_convert() -> None:
    learner = Learner(MLP(4, 1), ER())
    learner.observe([0.5, 1, 2, 3], "a")
    with pytest.raises(InputError, match=r"numpy\.asarray\(x, 'float32'\)"):
        learner.observe(np.array([1, 2, 3, 4]), "a")
    learner.observe(np.asarray([1, 2, 3, 4], "float32"), "a")


def test_fixed_classes_and_too_few_outputs() -> None:
    convolved = nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 4), nn.Flatten())
    pooled = nn.Sequential(nn.Linear(4, 4), nn.Unflatten(1, (2, 2)), nn.AvgPool1d(2), nn.Flatten())
    for network, message in [
        (convolved, "more classes than the network has outputs"),
        (pooled, "use a network with an output for every class"),
    ]:
        with pytest.raises(InputError, match=message):
            Learner(network, ER(), classes=["a", "b", "c"]).observe(np.ones(4, "float32"), "a")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (MLP(5, 1), r"does not fit this network: .* shape \[4\]"),
        (MLP(4, 1, (7,)), r"another network or method: weights\.hidden\.1\.\w+ is missing here"),
        (MLP(4, 1, (100, 100, 9)), r"network or method: weights\.hidden\.2\.\w+ is missing in"),
    ],
)
def test_a_file_for_another_network(other: nn.Module, message: str, tmp_path: Path) -> None:
    learner = Learner(MLP(4, 1), ER())
    learner.observe(np.ones(4, "float32"), "a")
    learner.save(tmp_path / "a.recollect")
    with pytest.raises(InputError, match=message):
        Learner.load(tmp_path / "a.recollect", other)


def test_resume_takes_a_folder(tmp_path: Path) -> None:
    learner = Learner(MLP(4, 1), ER())
    learner.save(tmp_path / "a.recollect")
    with pytest.raises(
        InputError, match=r"a\.recollect' is a file, not a folder of checkpoints: use Learner\.load"
    ):
        Learner.resume(tmp_path / "a.recollect", MLP(4, 1))


@pytest.mark.skipif(os.name != "posix", reason="only there, pipes have names")
def test_a_device_or_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(DataError, match="it is a device or a pipe, not a file"):
        Learner(MLP(4, 1), ER()).save(pipe)
    assert pipe.is_fifo()


def scripted() -> torch.jit.ScriptModule:
    torch.manual_seed(0)
    return torch.jit.script(nn.Linear(4, 4))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is deprecated")
def test_a_scripted_module_is_refused() -> None:
    said = "compiled by torch.jit.script or torch.jit.trace"
    for module in (scripted(), nn.Sequential(scripted(), nn.Linear(4, 1))):
        with pytest.raises(InputError, match=f"the network or a part of it was {said}"):
            Learner(module, ER())
        with pytest.raises(InputError, match=f"the encoder or a part of it was {said}"):
            Learner(nn.Linear(4, 1), ER(), encoder=module)
    x, y = torch.rand(8, 4), torch.arange(8) % 4
    stream = from_arrays(x, y, tasks=2, test=(x, y))
    with pytest.raises(InputError, match=f"the network was {said}"):
        run(stream, "er", network=scripted, buffer=4, bs=4, lr=0.1, seeds=[0])


@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_refused(layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.rand(3, 4), torch.rand(2, 4)], layout=layout)
    learner = Learner(nn.Linear(4, 1), ER())
    for x in (nested, {"x": nested}):
        with pytest.raises(InputError, match="this is a nested tensor: pad it"):
            learner.observe(x, ["a", "b"])
    learner.observe(torch.rand(2, 4), ["a", "b"])
    with pytest.raises(InputError, match="this is a nested tensor: pad it"):
        learner.predict(nested)


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
def test_a_network_with_computed_attributes_is_refused() -> None:
    normed = nn.utils.weight_norm(nn.Linear(4, 4))
    said = r"network .*cannot be copied: 0\.weight was computed .* torch\.nn\.utils\.parametr"
    with pytest.raises(InputError, match=said):
        Learner(nn.Sequential(normed, nn.Linear(4, 1)), ER())
    with pytest.raises(InputError, match=r"encoder .*cannot be copied: weight was computed"):
        Learner(MLP(4, 1), ER(), encoder=normed)


@pytest.mark.parametrize("path", ["", ".", "folder"])
def test_a_folder_is_not_a_file_to_save_to(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    learner = Learner(MLP(4, 1), ER())
    with pytest.raises(DataError, match="is a folder: add the name of a file"):
        learner.save(path)
    assert learner.saved is None


def test_values_of_any_float_type() -> None:
    losses = []
    for kind in (torch.float32, torch.bfloat16):
        torch.manual_seed(0)
        learner = Learner(MLP(4, 1), ER(), target="regression")
        losses.append(learner.observe(np.eye(4), torch.arange(4, dtype=kind)))
    assert losses[0] == losses[1]
