"""What many tests share: a chi-square test, small data, and a network small enough to follow."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from tests.slow import SLOW, TORTURE
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from recollect import MLP, Fleet
from recollect.streams import TaskStream, from_arrays
from recollect.streams.data import catalogue, sources
from recollect.train.compiled import compiler_exists

# As in training: small tensors gain nothing from a second thread, and on a busy machine they wait
# for each other.
torch.set_num_threads(1)

# A machine that is busy with something else is no failure.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow files, and those that `make torture` runs in full."""
    here = Path(__file__).parent
    for item in items:
        name = item.path.relative_to(here).as_posix() if item.path.is_relative_to(here) else ""
        if name in SLOW:
            item.add_marker(pytest.mark.slow)
        if name in TORTURE:
            item.add_marker(pytest.mark.torture)


@pytest.fixture(autouse=True, scope="session")
def _interruptible() -> Iterator[None]:
    """Let SIGINT interrupt: a shell without job control lets its background jobs ignore it."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True, scope="module")
def _collected() -> None:
    """Let the garbage collector pass over what earlier tests left: compilers leave millions."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has a result store of its own."""
    folder = tmp_path_factory.mktemp("store", numbered=True)
    monkeypatch.setenv("RECOLLECT_STORE", str(folder / "results.sqlite"))


@pytest.fixture(scope="session")
def python() -> Callable[..., str]:
    """What `python` with some words prints, in a process of its own that finds what we find."""

    def ran(*words: str) -> str:
        found = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "utf-8"}
        ended = subprocess.run(
            [sys.executable, *words], capture_output=True, encoding="utf-8", timeout=60,
            env={**os.environ, **found},
        )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
        assert ended.stderr == ""
        return ended.stdout

    return ran


@pytest.fixture(scope="session")
def chance() -> Callable[..., float]:
    """The probability of counts at least as uneven as these, if they were as expected."""

    def of(counts: Tensor, expected: Tensor | None = None) -> float:
        observed = counts.double().flatten()
        if expected is None:
            expected = torch.full_like(observed, float(observed.mean()))
        expected = expected.double().flatten()
        possible = expected > 0
        assert not observed[~possible].any(), "something impossible happened"
        observed, expected = observed[possible], expected[possible]
        statistic = ((observed - expected).square() / expected).sum()
        freedom = torch.tensor(len(observed) - 1, dtype=torch.float64)
        return float(torch.special.gammaincc(freedom / 2, statistic / 2))

    return of


@pytest.fixture(
    params=[
        pytest.param({"recorded": True}, id="recorded"),
        pytest.param(
            {"recorded": True, "compiled": True},
            id="both",
            marks=[
                pytest.mark.skipif(not compiler_exists(), reason="there is no C++ compiler here"),
                pytest.mark.filterwarnings("ignore::DeprecationWarning"),
            ],
        ),
    ]
)
def way(request: pytest.FixtureRequest) -> dict[str, bool]:
    """Ways to carry the steps of a fleet out, which must change nothing."""
    chosen: dict[str, bool] = request.param
    return chosen


@pytest.fixture(scope="session")
def tiny_net() -> Callable[[], MLP]:
    """Six inputs (of any shape), five hidden units, three classes."""
    return lambda: MLP(6, 3, hidden=(5,))


@pytest.fixture(scope="session")
def examples() -> Callable[..., tuple[Tensor, Tensor]]:
    """Examples of every run that depend on its seed alone: x `[K, n, *shape]`, y `[K, n]`."""

    def of(
        seeds: list[int], n: int, shape: tuple[int, ...] = (6,), classes: int = 3
    ) -> tuple[Tensor, Tensor]:
        x, y = [], []
        for seed in seeds:
            generator = torch.Generator().manual_seed(seed + 1000)
            x.append(torch.rand(n, *shape, dtype=torch.float64, generator=generator))
            y.append(torch.randint(0, classes, (n,), generator=generator))
        return torch.stack(x), torch.stack(y)

    return of


@pytest.fixture(scope="session")
def toy_stream() -> TaskStream:
    """Two tasks of two classes each, 35 training examples a task, that can be learned."""
    generator = np.random.default_rng(0)

    def some(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(n) % 4
        centres = 3 * np.eye(4, 6)
        return (centres[y] + generator.normal(size=(n, 6))).astype(np.float32), y

    x, y = some(70)
    return from_arrays(x, y, test=some(40), tasks=[[0, 2], [1, 3]], name="toy")


@pytest.fixture
def trained_fleets(monkeypatch: pytest.MonkeyPatch) -> list[Fleet]:
    """Every fleet that `train` makes, in order."""
    made: list[Fleet] = []

    class Noted(Fleet):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append(self)

    monkeypatch.setattr("recollect.train.loop.Fleet", Noted)
    return made


@pytest.fixture
def unchecked_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """First steps are not taken on copies beforehand, for methods that note what they are given."""
    monkeypatch.setattr("recollect.train.mixing.FirstSteps.expect", lambda self, sizes: False)


@pytest.fixture(scope="session")
def sizes_of_results() -> Callable[[], AbstractContextManager[list[int]]]:
    """Watches, for a while, the number of elements of every tensor that an operation makes."""

    @contextmanager
    def watch() -> Iterator[list[int]]:
        sizes: list[int] = []

        class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                result = func(*args, **(kwargs or {}))
                if isinstance(result, Tensor) and not func._schema.is_mutable and not func.is_view:
                    sizes.append(result.numel())
                return result

        with Watch():  # type: ignore[no-untyped-call]
            yield sizes

    return watch


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder on a machine without MNIST, network or terminal."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("RECOLLECT_OFFLINE", "1")
    for name in ("RECOLLECT_DATA", "COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sources, "_installed", lambda collection: [])
    others = {key: data for key, data in catalogue._loaded.items() if key[0] != "mnist"}
    monkeypatch.setattr(catalogue, "_loaded", others)
