"""On a GPU: compiled and recorded steps of every method do what uncompiled ones do."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from tests.builders import assert_close
from torch import Tensor

from recollect import ER, Fleet, Method, ResNet18
from recollect.core.images import Images
from recollect.errors import SlowerWarning
from recollect.methods import MER, METHODS
from recollect.train import execution

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here"),
    # Torch's compiler warns of its own accord; of ours, the later filter makes a failure.
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::FutureWarning",
        "default::UserWarning",
        "error::recollect.errors.SlowerWarning",
    ),
]

SHAPE, CLASSES, RUNS, COUNT = (3, 16, 16), 4, 2, 64
IMAGES = Images(mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3), padding=2)
ONLY_MLP = {"hat"}


def examples(task: int, places: Tensor) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randint(256, (COUNT, *SHAPE), dtype=torch.uint8, generator=generator).cuda()
    y = (torch.arange(COUNT) % 2 + 2 * task).cuda()
    rows = places.cuda().expand(RUNS, -1)
    return x[rows], y[rows]


def fleet_of(kind: type[Method], **how: Any) -> Fleet:
    method, replay = kind(), 8
    if kind is MER:
        # Single examples make batch normalisation so unstable that a change of 1e-15 in a weight
        # is one of 0.04 after eight steps. Two inner steps of three examples do not.
        method, replay = MER(inner=3), 5
    return Fleet(
        [method] * RUNS, partial(ResNet18, CLASSES, width=8), seeds=[0, 1], lr=[3e-3, 2e-3],
        classes=CLASSES, shape=SHAPE, memory=16, replay=replay, stored=torch.uint8, images=IMAGES,
        device="cuda", tasks=2, per_task=2, **how,
    )  # fmt: skip


def trained(fleet: Fleet) -> Fleet:
    batch = fleet.kind.needs.batch_size or 8
    for task in range(2):
        known = partial(examples, task)
        fleet.start_task(known, COUNT, batch)
        fleet.learn(*known(torch.arange(8 * batch)), batch)
        for _ in range(fleet.end_task(known, COUNT, batch)):
            fleet.learn(*known(torch.arange(8 * batch)), batch)
        fleet.next_task(COUNT)
    return fleet


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ONLY_MLP])
def test_compiled_and_recorded_steps_do_the_same(name: str) -> None:
    """A failure to compile or to record is an error here: warnings are, in all tests.

    In float64, so that a difference is a mistake and not rounding, which normalisation over few
    examples magnifies at every step.
    """
    kind = METHODS[name]
    plain = trained(fleet_of(kind, dtype=torch.float64, compiled=False, recorded=False))
    fast = trained(fleet_of(kind, dtype=torch.float64, compiled=True, recorded=True))
    assert fast.execution == "loop, CUDA graph, 2 streams, compiled"
    assert_close(fast, plain, 1e-7)


@pytest.mark.parametrize("name", ["agem", "hal", "derpp"])
def test_half_precision_compiles_too(name: str) -> None:
    fleet = trained(fleet_of(METHODS[name], half=True, compiled=True, recorded=True))
    assert fleet.execution == "loop, CUDA graph, 2 streams, compiled, bf16"
    assert all(tensor.isfinite().all() for tensor in fleet.weights)


@pytest.mark.parametrize("way", ["host waits", "exception"])
def test_after_a_capture_that_fails_all_goes_on(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """CUDA refuses the first; the second leaves a step half-way, in one of its streams."""

    def update(self: ER, step: Any) -> Tensor:
        loss = ER.loss(self, step)
        step.model.descend(step.model.gradient(loss))
        if torch.cuda.is_current_stream_capturing():
            if way == "exception":
                raise ValueError("not in a graph")
            loss.sum().item()
        return loss.detach()

    execution.say_slower.cache_clear()
    plain = trained(fleet_of(ER, dtype=torch.float64, compiled=False, recorded=False))
    monkeypatch.setattr(ER, "update", update)
    stream = torch.cuda.current_stream()
    with pytest.warns(SlowerWarning, match="ER: a step could not be recorded"):
        odd = trained(fleet_of(ER, dtype=torch.float64, compiled=False, recorded=True))
    assert torch.cuda.current_stream() == stream
    assert odd.execution == "loop, 2 streams"
    assert_close(odd, plain, 1e-7)
    monkeypatch.undo()
    torch.cuda.empty_cache()
    assert torch.rand(3, device="cuda").isfinite().all(), "torch's generator works"
    again = trained(fleet_of(ER, dtype=torch.float64, compiled=False, recorded=True))
    assert again.execution == "loop, CUDA graph, 2 streams", "other steps can be recorded"
