"""PackNet: a run written out from its equations, weights that stay, and the ways to train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.builders import assert_close, close, image_stream, learn_task, whole_and_stopped
from tests.methods.three_tasks import BATCH, CLASSES, COUNT, PROBE, RATES, SEEDS, TASKS, examples_of
from tests.methods.three_tasks import fleet_of as fleet_with
from torch import Tensor, nn

from recollect import MLP, Fleet, ResNet18
from recollect.core.images import Images
from recollect.errors import InputError
from recollect.methods import PackNet
from recollect.streams import TaskStream
from recollect.train import Job, Run, train

SHARES = [0.75, 0.5, 0.9, 0.6]


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 5), nn.Tanh(), nn.Linear(5, CLASSES))


def normalised() -> nn.Module:
    first = [nn.Flatten(), nn.Linear(48, 5), nn.BatchNorm1d(5), nn.Tanh()]
    return nn.Sequential(*first, nn.Linear(5, CLASSES, bias=False))


NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": partial(MLP, 48, CLASSES, hidden=(5, 4)), "dense": dense, "normalised": normalised,
}  # fmt: skip
HEADS = {"mlp": ("head", 1), "dense": ("3", 0), "normalised": ("4", 0)}


def fleet_of(net: str, runs: Sequence[int] = (0,), **ways: Any) -> Fleet:
    return fleet_with([PackNet(SHARES[run]) for run in runs], NETS[net], runs, **ways)


def learn(fleet: Fleet, task: int, runs: Sequence[int] = (0,), labels: int | None = None) -> None:
    x, y = examples_of(task, runs)
    if labels is not None:
        y = y - 2 * task + labels
    learn_task(fleet, x, y, BATCH)


class ByHand:
    """One run, one weight at a time."""

    def __init__(self, net: nn.Module, head: tuple[str, int], rate: float, prune: float) -> None:
        self.net, self.rate, self.prune = net, rate, prune
        self.head, self.axis = head
        self.owner = {n: torch.full(p.shape, -1) for n, p in net.named_parameters()}

    def train(self, task: int, x: Tensor, y: Tensor) -> None:
        classes = [2 * task, 2 * task + 1]
        self.net.train()
        if task:
            for layer in self.net.modules():
                if isinstance(layer, nn.BatchNorm1d):
                    layer.eval()
        for may_change in (-1, task):
            if may_change == task:
                self.release(task, classes)
            for start in range(0, COUNT, BATCH):
                logits = self.net(x[start : start + BATCH])[:, classes]
                labels = y[start : start + BATCH] - 2 * task
                loss = nn.functional.cross_entropy(logits, labels)
                named = dict(self.net.named_parameters())
                parts = torch.autograd.grad(loss, list(named.values()))
                with torch.no_grad():
                    for (name, parameter), part in zip(named.items(), parts, strict=True):
                        parameter.sub_(self.rate * part * (self.owner[name] == may_change))

    @torch.no_grad()
    def release(self, task: int, classes: list[int]) -> None:
        for name, parameter in self.net.named_parameters():
            owner = self.owner[name]
            if name.startswith(self.head):
                for label in classes:
                    owner.select(self.axis if name.endswith("weight") else 0, label).fill_(task)
            elif parameter.dim() < 2:
                owner[owner == -1] = task
            else:
                flat, owners = parameter.view(-1), owner.view(-1)
                free = [place for place in range(len(flat)) if owners[place] == -1]
                free.sort(key=lambda place: -abs(float(flat[place])))
                kept = round(len(free) * (1 - self.prune))
                owners[free[:kept]] = task
                flat[free[kept:]] = 0.0

    @torch.no_grad()
    def logits(self, task: int) -> Tensor:
        """What a network says that has the weights of this task and of earlier ones alone."""
        self.net.eval()
        before = {n: p.clone() for n, p in self.net.named_parameters()}
        for name, parameter in self.net.named_parameters():
            owner = self.owner[name]
            parameter[(owner == -1) | (owner > task)] = 0.0
        said: Tensor = self.net(PROBE[0])
        for name, parameter in self.net.named_parameters():
            parameter.copy_(before[name])
        return said


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("run", [0, 1])
def test_a_run_is_its_equations_written_out(net: str, run: int) -> None:
    fleet = fleet_of(net, [run])
    torch.manual_seed(SEEDS[run])
    by_hand = ByHand(NETS[net]().double(), HEADS[net], RATES[run], SHARES[run])
    for task in range(TASKS):
        learn(fleet, task, [run])
        by_hand.train(task, *(tensor[0] for tensor in examples_of(task, [run])))
        for name, parameter in by_hand.net.named_parameters():
            close(fleet.weights.named()[f"net.{name}"][0], parameter.detach())
            owner = fleet.state[f"owner.weights.net.{name}"][0].long()
            assert torch.equal(owner - 1, by_hand.owner[name]), name
        for tested in range(task + 1):
            close(fleet.predict(PROBE, tested)[0], by_hand.logits(tested))


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("again", [False, True], ids=["new classes", "the same classes"])
def test_what_is_said_of_earlier_tasks_stays_the_same_to_the_last_bit(
    net: str, again: bool
) -> None:
    runs = (0, 2)
    fleet = fleet_of(net, runs)
    said: list[Tensor] = []
    for task in range(TASKS):
        before = {name: tensor.clone() for name, tensor in fleet.weights.named().items()}
        learn(fleet, task, runs, labels=0 if again else None)
        said.append(fleet.predict(PROBE, task))
        for earlier, logits in enumerate(said):
            assert torch.equal(fleet.predict(PROBE, earlier), logits)
        hidden = next(name for name in before if before[name].dim() == 3)
        assert not torch.equal(fleet.weights.named()[hidden], before[hidden])
    assert not torch.equal(said[0], said[1])


def test_a_diverging_task_leaves_the_earlier_ones_alone() -> None:
    fleet = fleet_of("mlp")
    learn(fleet, 0)
    said = fleet.predict(PROBE, 0)
    x, y = examples_of(1)
    fleet.start_task(lambda index: (x[:, index[0]], y[:, index[0]]), COUNT)
    fleet.learn(x * torch.nan, y, BATCH)
    assert not all(tensor.isfinite().all() for tensor in fleet.weights)
    assert torch.equal(fleet.predict(PROBE, 0), said)


def test_every_task_has_its_share_of_what_is_free() -> None:
    fleet = fleet_of("mlp", [0, 1])
    for task in range(TASKS):
        learn(fleet, task, [0, 1])
    owners = fleet.state["owner.weights.net.hidden.0.weight"].flatten(1)
    counts = [[int((row == code).sum()) for code in range(TASKS + 1)] for row in owners]
    assert counts == [[101, 60, 45, 34], [30, 120, 60, 30]]
    weights = fleet.weights.named()["net.hidden.0.weight"].flatten(1)
    assert not weights[owners == 0].any()


@pytest.mark.parametrize("net", ["mlp", "normalised"])
def test_how_steps_are_carried_out_changes_nothing(net: str, way: dict[str, bool]) -> None:
    plain, fast = fleet_of(net, [0, 2]), fleet_of(net, [0, 2], **way)
    for task in range(TASKS):
        for fleet in (plain, fast):
            learn(fleet, task, [0, 2])
    assert_close(fast, plain)


def test_what_a_run_holds_does_not_grow() -> None:
    fleet = fleet_of("mlp")
    sizes = [fleet.bytes_per_run]
    for task in range(TASKS):
        learn(fleet, task)
        sizes.append(fleet.bytes_per_run)
    weights = 48 * 5 + 5 + 5 * 4 + 4 + 4 * 6 + 6
    assert set(sizes) == {weights + 2 * 8 * CLASSES + CLASSES + 1}, "a byte for every weight"


@pytest.mark.parametrize("share", [1.0, -0.1, 75.0])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(InputError, match=r"prune.* must be at least 0 and (below 1|finite)"):
        PackNet(share)


def test_too_many_tasks_are_refused() -> None:
    with pytest.raises(InputError, match="at most 254 tasks, not 255"):
        Fleet([PackNet()], NETS["mlp"], seeds=[0], lr=[0.1], classes=CLASSES, shape=(3, 4, 4),
              tasks=255)  # fmt: skip


def job_of(stream: TaskStream, network: Callable[[], nn.Module]) -> Job:
    runs = tuple(Run(seed, 0.1, PackNet(0.6 + 0.1 * seed, retrain=2)) for seed in (0, 1))
    return Job(stream, runs, batch=4, replay=0, buffer=None, epochs=1, network=network)


@pytest.mark.parametrize("net", ["mlp", "normalised"])
def test_stopped_anywhere_it_ends_as_if_it_never_had(
    net: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recollect.train.source.STRETCH", 12)
    job = job_of(image_stream(4), NETS[net])
    whole, again, stops = whole_and_stopped(job, tmp_path)
    assert again == whole
    assert stops == 18, "two stretches an epoch; one epoch, and two of retraining"
    assert whole[0].steps == 3 * 3 * 5
    assert job.steps == 3 * 5, "retraining is not planned"


def test_a_small_resnet_forgets_nothing_and_is_scored_in_task_il_alone() -> None:
    images = Images(mean=(0.3, 0.3, 0.3), std=(0.2, 0.2, 0.2), padding=1)
    for run in train(job_of(image_stream(8, images), partial(ResNet18, CLASSES, width=8))):
        assert not run.diverged
        assert run.execution.startswith("loop")
        assert list(run.accuracy) == list(run.matrix) == ["task"]
        # Forgetting is not checked: it counts accuracies from before a task is trained.
        columns = zip(*run.matrix["task"], strict=True)
        assert all(len({*column[task:]}) == 1 for task, column in enumerate(columns))
        assert run.bwt == {"task": 0.0}
        assert run.fwt == {"task": None}
