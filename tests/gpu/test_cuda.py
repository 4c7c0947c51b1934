"""On a GPU: the same memories and replays as on a CPU, graphs and streams that change nothing."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from recollect import ER, MLP, DERpp, Fleet, Method, ResNet18
from recollect.core.images import Images
from recollect.streams import TaskStream
from recollect.train import Checkpoints, Job, Run, TimeUp, train, train_all

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")

SHAPE, CLASSES = (3, 8, 8), 4
IMAGES = Images(mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3), padding=2)


def dense() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 9), nn.Tanh(), nn.Linear(9, CLASSES))


NETS: dict[str, Callable[[], nn.Module]] = {
    "mlp": partial(MLP, 192, CLASSES, hidden=(7,)),
    "dense": dense,
    "resnet": partial(ResNet18, CLASSES, width=4),
}
METHODS: dict[str, list[Method]] = {
    "er": [ER(), ER(), ER()],
    "derpp": [DERpp(0.4, 0.9), DERpp(1.1, 0.0), DERpp(0.1, 0.5)],
}


def fleet_of(net: str, method: str, device: str) -> Fleet:
    return Fleet(
        METHODS[method], NETS[net], seeds=[5, 0, 9], lr=[3e-3, 2e-3, 5e-3], classes=CLASSES,
        shape=SHAPE, memory=12, replay=8, stored=torch.uint8, images=IMAGES, device=device,
        dtype=torch.float64,
    )  # fmt: skip


def data(runs: int, count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randint(256, (runs, count, *SHAPE), dtype=torch.uint8, generator=generator)
    return x, torch.randint(CLASSES, (runs, count), generator=generator)


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("method", METHODS)
def test_a_seed_means_the_same_on_a_gpu(net: str, method: str) -> None:
    """Memories and replays exactly; weights up to rounding, which is float64's here.

    Normalisation over few examples magnifies rounding at every step, so the steps are few.
    """
    here, there = (fleet_of(net, method, device) for device in ("cpu", "cuda"))
    x, y = data(3, 44)
    here.learn(x, y, batch=8)
    there.learn(x.cuda(), y.cuda(), batch=8)
    mine, theirs = here.memory.fields(), there.memory.fields()
    for name in mine:
        close(theirs[name], mine[name], 1e-7 if name == "logits" else 0.0)
    for name, tensor in here.tensors().items():
        if not name.startswith("memory."):
            close(there.tensors()[name], tensor, 1e-7)
    assert "CUDA graph" in there.execution
    assert there.memory.fields().x.any()


def test_half_precision_learns_as_well() -> None:
    fleet = Fleet(
        [ER()] * 2, NETS["resnet"], seeds=[0, 1], lr=[0.05] * 2, classes=CLASSES, shape=SHAPE,
        memory=50, replay=16, stored=torch.uint8, device="cuda", half=True,
    )  # fmt: skip
    y = torch.arange(640).remainder(CLASSES).expand(2, -1).cuda()
    x = (60 * y[..., None, None, None]).expand(2, 640, *SHAPE).to(torch.uint8)
    fleet.learn(x, y, batch=16)
    assert "bf16" in fleet.execution
    assert (fleet.logits(x[:, :40]).argmax(2) == y[:, :40]).all()


def test_a_stopped_job_continues(tmp_path: Path) -> None:
    job = toy_job(runs=2)
    whole = train(job)
    stopping = Checkpoints(tmp_path, deadline=0.0)
    for _ in range(100):
        try:
            parts = train(job, checkpoints=stopping)
            break
        except TimeUp:
            continue
    for run, again in zip(whole, parts, strict=True):
        assert run.steps == again.steps
        assert run.accuracy["class"] == pytest.approx(again.accuracy["class"], abs=5)


def test_a_fleet_that_does_not_fit_is_split_and_says_so() -> None:
    """The limit on memory stands in for a small GPU."""
    job = toy_job(runs=8, memory=400_000)
    said: list[str] = []
    gc.collect()
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    room = torch.cuda.memory_reserved() + 400 * 2**20
    torch.cuda.set_per_process_memory_fraction(room / total)
    try:
        results = train_all([job], notice=said.append)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert [result.seed for result in results] == list(range(8))
    assert said
    assert "at a time" in said[0]


def toy_job(runs: int, memory: int = 20) -> Job:
    x, y = data(1, 400)
    classes = ((0, 1), (2, 3))
    ids = tuple(torch.isin(y[0], torch.tensor(pair)).nonzero().flatten() for pair in classes)
    stream = TaskStream("toy", "class", 4, x[0], y[0], x[0], y[0], ids, ids, classes)
    return Job(
        stream=stream,
        runs=tuple(Run(seed, 0.05, ER()) for seed in range(runs)),
        batch=8,
        replay=8,
        buffer=memory,
        epochs=3,
        network=NETS["resnet"],
        device=torch.device("cuda"),
    )


def close(ours: Tensor, theirs: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(ours.cpu(), theirs.cpu(), rtol=0, atol=tolerance)
