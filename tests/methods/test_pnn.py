"""PNN: a run written out from its equations, columns that never change, and the ways to train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.builders import assert_close, close, image_stream, learn_task, whole_and_stopped
from tests.methods.three_tasks import BATCH, CLASSES, COUNT, PROBE, RATES, TASKS, examples_of
from tests.methods.three_tasks import fleet_of as fleet_with
from torch import Tensor, nn

from recollect import MLP, Fleet, ResNet18
from recollect.core.images import Images
from recollect.errors import InputError
from recollect.methods import PNN
from recollect.nets.progressive import Progressive
from recollect.streams import TaskStream
from recollect.train import Job, Run, train

WIDTHS = (5, 4)

NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": partial(MLP, 48, CLASSES, hidden=WIDTHS),
    "resnet": partial(ResNet18, CLASSES, width=8),
}


def fleet_of(net: str, runs: Sequence[int] = (0,), **ways: Any) -> Fleet:
    return fleet_with([PNN() for _ in runs], NETS[net], runs, **ways)


def learn(fleet: Fleet, task: int, runs: Sequence[int] = (0,)) -> None:
    learn_task(fleet, *examples_of(task, runs), BATCH)


class ByHand:
    """Column k: h_i = relu(W_i h_{i-1} + sum over j < k of U_i^j h_{i-1} of column j + b_i)."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        self.columns = []
        for k in range(TASKS):
            parts = []
            for layer, width in (("hidden.0", 48), ("hidden.1", WIDTHS[0]), ("head", WIDTHS[1])):
                weight = weights[f"columns.{k}.{layer}.weight"]
                sizes = [width] if layer == "hidden.0" else [width] * (k + 1)
                pieces = torch.split_with_sizes(weight, sizes)
                own, *lateral = (piece.clone().requires_grad_() for piece in pieces)
                bias = weights[f"columns.{k}.{layer}.bias"].clone().requires_grad_()
                parts.append((own, lateral, bias))
            self.columns.append(parts)

    def layers(self, x: Tensor, k: int) -> list[Tensor]:
        before = [self.layers(x, j) for j in range(k)]
        found: list[Tensor] = []
        for i, (own, lateral, bias) in enumerate(self.columns[k]):
            total = (x.flatten(1) if i == 0 else found[-1]) @ own + bias
            for j, other in enumerate(lateral):
                total = total + before[j][i - 1].detach() @ other
            found.append(total if i == 2 else total.relu())
        return found

    def step(self, x: Tensor, y: Tensor, k: int, rate: float) -> None:
        loss = -self.layers(x, k)[-1].log_softmax(1)[torch.arange(len(y)), y].mean()
        mine = [p for own, lateral, bias in self.columns[k] for p in (own, *lateral, bias)]
        with torch.no_grad():
            for parameter, part in zip(mine, torch.autograd.grad(loss, mine), strict=True):
                parameter.sub_(rate * part)


@pytest.mark.parametrize("run", [0, 1])
def test_a_run_is_its_equations_written_out(run: int) -> None:
    fleet = fleet_of("mlp", [run])
    by_hand = ByHand({name: tensor[0] for name, tensor in fleet.weights.named().items()})
    for task in range(TASKS):
        learn(fleet, task, [run])
        x, y = (tensor[0] for tensor in examples_of(task, [run]))
        for start in range(0, COUNT, BATCH):
            by_hand.step(x[start : start + BATCH], y[start : start + BATCH], task, RATES[run])
        for tested in range(TASKS):
            logits = by_hand.layers(PROBE[0], tested)[-1]
            close(fleet.predict(PROBE, tested)[0], logits.detach())


@pytest.mark.parametrize("net", NETS)
def test_what_is_said_of_earlier_tasks_stays_the_same_to_the_last_bit(net: str) -> None:
    runs = (0, 2)
    fleet = fleet_of(net, runs)
    said: list[Tensor] = []
    for task in range(TASKS):
        untrained = fleet.predict(PROBE, task)
        learn(fleet, task, runs)
        said.append(fleet.predict(PROBE, task))
        assert not torch.equal(said[-1], untrained)
        for earlier, logits in enumerate(said):
            assert torch.equal(fleet.predict(PROBE, earlier), logits)
    assert not torch.equal(said[0], said[1])


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("task", [1, 2])
def test_every_layer_of_a_column_reads_all_earlier_columns(net: str, task: int) -> None:
    """Whatever changes in an earlier column, up to its last hidden layer, changes later ones."""
    torch.manual_seed(0)
    module = Progressive([NETS[net]() for _ in range(TASKS)]).double().eval()
    module.begin(task)
    before = module(PROBE[0])
    levels = {"mlp": ["hidden.0", "hidden.1"], "resnet": ["stem", "stages.0", "stages.3"]}[net]
    for column in range(task):
        for level in levels:
            names = [n for n, _ in module.named_parameters() if n.startswith(f"columns.{column}.")]
            parameter = module.get_parameter(next(n for n in names if f"{level}." in n))
            kept = parameter.data.clone()
            parameter.data.mul_(1.5)
            assert not torch.allclose(module(PROBE[0]), before, atol=1e-9), (column, level)
            parameter.data.copy_(kept)
    assert torch.equal(module(PROBE[0]), before)


@pytest.mark.parametrize("net", NETS)
def test_only_the_column_of_the_task_learns(net: str) -> None:
    fleet = fleet_of(net)
    for task in range(TASKS):
        before = {name: tensor.clone() for name, tensor in fleet.tensors().items()}
        learn(fleet, task)
        changed = {n for n, tensor in fleet.tensors().items() if not torch.equal(tensor, before[n])}
        mine = {n for n in before if n.split(".")[1:3] == ["columns", str(task)]}
        assert changed == mine, "all of it: weights, connections, statistics"


def test_a_run_of_a_fleet_of_residual_networks_equals_the_run_alone() -> None:
    runs = (3, 1, 3)
    together, alone = fleet_of("resnet", runs), [fleet_of("resnet", [run]) for run in runs]
    for task in range(TASKS):
        learn(together, task, runs)
        for run, fleet in zip(runs, alone, strict=True):
            learn(fleet, task, [run])
    for k, fleet in enumerate(alone):
        for name, tensor in fleet.tensors().items():
            close(together.tensors()[name][k], tensor[0])
        for task in range(TASKS):
            close(together.predict(PROBE, task)[k], fleet.predict(PROBE, task)[0])


def test_how_steps_are_carried_out_changes_nothing(way: dict[str, bool]) -> None:
    """What is recorded or compiled for a task is not used in the next."""
    plain, fast = fleet_of("mlp", [0, 2]), fleet_of("mlp", [0, 2], **way)
    for task in range(TASKS):
        for fleet in (plain, fast):
            learn(fleet, task, [0, 2])
    assert_close(fast, plain)


@pytest.mark.parametrize("runs", [(0,), (0, 1)])
def test_what_a_run_holds_grows_by_a_column_for_every_task(runs: tuple[int, ...]) -> None:
    """In any company; the first column is the network that was given."""
    column = [
        8 * (48 * 5 + 5 + (k + 1) * 5 * 4 + 4 + (k + 1) * 4 * CLASSES + CLASSES) for k in range(3)
    ]
    for tasks, size in ((1, 0), (2, column[1]), (3, column[1] + column[2])):
        fleet = fleet_of("mlp", runs, tasks=tasks)
        assert fleet.bytes_per_run == size
        learn(fleet, 0, runs)
        assert fleet.bytes_per_run == size


def test_more_tasks_than_columns_are_refused() -> None:
    fleet = fleet_of("mlp")
    for task in range(TASKS):
        learn(fleet, task)
    with pytest.raises(InputError, match="PNN has seen all of its 3 tasks"):
        learn(fleet, 0)


@pytest.mark.parametrize("given", ["module", "function"])
def test_every_column_starts_from_the_network_that_is_given(given: str) -> None:
    module = MLP(48, CLASSES, hidden=WIDTHS)
    network = module if given == "module" else NETS["mlp"]
    fleet = Fleet([PNN(), PNN()], network, seeds=[0, 1], lr=[0.1, 0.1], classes=CLASSES,
                  shape=(3, 4, 4), tasks=2)  # fmt: skip
    weights = fleet.weights.named()
    first, second = (weights[f"columns.{k}.hidden.1.weight"][:, : WIDTHS[0]] for k in (0, 1))
    if given == "module":
        expected = module.hidden[1].weight.detach()  # type: ignore[operator]
        assert all(torch.equal(w, expected) for pair in (first, second) for w in pair)
    else:
        assert len({float(w[0, 0]) for pair in (first, second) for w in pair}) == 4
    beside = weights["columns.1.hidden.1.weight"][:, WIDTHS[0] :]
    assert beside.shape == (2, WIDTHS[0], WIDTHS[1])
    assert not torch.equal(beside[0], beside[1])


@pytest.mark.parametrize("network", [nn.Sequential(nn.Flatten(), nn.Linear(48, 6)), "mlp"])
def test_networks_that_it_cannot_connect_are_refused(network: nn.Module) -> None:
    with pytest.raises(InputError, match=r"need an MLP or ResNet18|must be a torch\.nn\.Module"):
        Fleet([PNN()], network, seeds=[0], lr=[0.1], classes=CLASSES, shape=(3, 4, 4), tasks=2)


def job_of(stream: TaskStream, network: Callable[[], nn.Module]) -> Job:
    runs = tuple(Run(seed, 0.1, PNN()) for seed in (0, 1))
    return Job(stream, runs, batch=4, replay=0, buffer=None, epochs=2, network=network)


IMAGES = Images(mean=(0.3, 0.3, 0.3), std=(0.2, 0.2, 0.2), padding=1)


@pytest.mark.parametrize("net", NETS)
def test_stopped_anywhere_it_ends_as_if_it_never_had(
    net: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.train.source.STRETCH", 12)
    if net == "mlp":
        job = job_of(image_stream(), partial(MLP, 192, CLASSES, hidden=WIDTHS))
    else:
        job = job_of(image_stream(8, IMAGES), NETS[net])
    whole, again, stops = whole_and_stopped(job, tmp_path)
    assert again == whole
    assert stops == 12, "two stretches an epoch, two epochs a task"


def test_a_small_resnet_forgets_nothing_and_is_scored_in_task_il_alone() -> None:
    for run in train(job_of(image_stream(8, IMAGES), NETS["resnet"])):
        assert not run.diverged
        assert run.execution.startswith("loop")
        assert list(run.accuracy) == list(run.matrix) == ["task"]
        assert run.bwt == {"task": 0.0}
        for task, after in enumerate(zip(*run.matrix["task"], strict=True)):
            assert len({*after[task:]}) == 1, "forgetting also counts columns before training"
        assert run.fwt == {"task": None}, "a column that was not trained says nothing"
        assert run.memory_bytes > 0
