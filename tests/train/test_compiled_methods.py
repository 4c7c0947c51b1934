"""Every method's step can be compiled, and does what the uncompiled step does.

Generating code takes the compiler many seconds for every method, so all but a few are compiled
only as far as the graph that code would be generated from; `tests/gpu` generates it for all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from tests.builders import assert_close
from torch import Tensor, nn

from recollect import MLP, Fleet, ResNet18
from recollect.methods import METHODS
from recollect.train.compiled import compiler_exists

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's compiler

SHAPE, CLASSES, RUNS = (2, 12, 12), 4, 2
COUNT = 24


def small() -> nn.Module:
    stem = [nn.Conv2d(2, 3, 3, 2, bias=False), nn.BatchNorm2d(3), nn.ReLU()]
    return nn.Sequential(*stem, nn.Flatten(), nn.Linear(75, CLASSES))


# Columns are made of the library's networks, and gates of its MLP. With less than four channels
# some are constant, and normalising them magnifies rounding until it is all that is seen.
COLUMNS = partial(ResNet18, CLASSES, width=4, channels=2)
NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "pc": COLUMNS,
    "pnn": COLUMNS,
    "hat": partial(MLP, 288, CLASSES, hidden=(5,)),
}


def examples(task: int, places: Tensor) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    x = torch.randint(256, (COUNT, *SHAPE), dtype=torch.uint8, generator=generator)
    y = torch.arange(COUNT) % 2 + 2 * task
    rows = places.expand(RUNS, -1)
    return x[rows], y[rows]


def trained(name: str, **how: Any) -> Fleet:
    """Two tasks, so that there is something to replay in the second."""
    kind = METHODS[name]
    fleet = Fleet(
        [kind()] * RUNS, NETWORKS.get(name, small), seeds=[0, 1], lr=[0.02, 0.01],
        classes=CLASSES, shape=SHAPE, memory=8, replay=4, stored=torch.uint8, tasks=2, per_task=2,
        **how,
    )  # fmt: skip
    batch = kind.needs.batch_size or 4
    for task in range(2):
        known = partial(examples, task)
        fleet.start_task(known, COUNT, batch)
        fleet.learn(*known(torch.arange(COUNT)), batch)
        for _ in range(fleet.end_task(known, COUNT, batch)):
            fleet.learn(*known(torch.arange(COUNT)), batch)
        fleet.next_task(COUNT)
    return fleet


@pytest.mark.parametrize("name", METHODS)
def test_a_step_becomes_a_graph_that_does_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graph is without changes in place but for copies at its end, and in basic operations."""
    from torch._inductor import compile_fx as compiler

    compile_fx, made = compiler.compile_fx, []

    def as_it_is(graph: Any, inputs: Any, **_: Any) -> Any:
        made.append(graph)
        return graph

    monkeypatch.setattr("recollect.train.compiled._KNOWN", {})
    monkeypatch.setattr("recollect.train.compiled._FAILED", set())
    monkeypatch.setattr("recollect.train.compiled.compiler_exists", lambda: True)
    monkeypatch.setattr(compiler, "compile_fx", partial(compile_fx, inner_compile=as_it_is))
    plain, fast = (trained(name, dtype=torch.float64, compiled=each) for each in (False, True))
    assert made
    assert "compiled" in fast.execution
    assert_close(fast, plain)


@pytest.mark.skipif(not compiler_exists(), reason="there is no C++ compiler on this machine")
@pytest.mark.parametrize("name", ["agem", "hal"])
def test_a_step_that_moves_the_weights_twice_is_compiled(name: str) -> None:
    plain, fast = (trained(name, dtype=torch.float64, compiled=each) for each in (False, True))
    assert "compiled" in fast.execution
    assert_close(fast, plain)
